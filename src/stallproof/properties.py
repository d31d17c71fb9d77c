"""The properties of a request lifecycle under page pressure, by the names people see.

The sentence of a property is its predicate's docstring, in :mod:`stallproof.predicates`.
"""

from __future__ import annotations

from collections.abc import Callable

from stallproof import predicates as p
from stallproof.claims import Claim, Kind
from stallproof.compiled import compiled_in_place
from stallproof.witness import Step


def _claim(kind: Kind, name: str, predicate: Callable[[Step], bool], sentence: str = "") -> Claim:
    """The sentence is the predicate's docstring, unless the predicate is about a single step of a cycle."""
    return Claim(name, kind, sentence or str(predicate.__doc__), predicate)


PROPERTIES: tuple[Claim, ...] = (
    _claim(Kind.ALWAYS, "page-conservation", p.page_conservation),
    _claim(Kind.ALWAYS, "phase-residency", p.phase_residency),
    _claim(Kind.ALWAYS, "legal-transition", p.legal_transition),
    _claim(Kind.ALWAYS, "lists-disjoint", p.lists_disjoint),
    _claim(Kind.ALWAYS, "victim-behind-requester", p.victim_behind_requester),
    _claim(Kind.ALWAYS, "victim-once-per-pass", p.victim_once_per_pass),
    _claim(Kind.ALWAYS, "victim-makes-room", p.victim_makes_room),
    _claim(Kind.ALWAYS, "active-victim-first", p.active_victim_first),
    _claim(Kind.ALWAYS, "only-when-needed", p.only_when_needed),
    _claim(Kind.ALWAYS, "decode-not-suspended-for-context", p.decode_not_suspended_for_context),
    _claim(Kind.ALWAYS, "no-suspension-without-lower-tier", p.no_suspension_without_lower_tier),
    _claim(Kind.ALWAYS, "tokens-preserved", p.tokens_preserved),
    _claim(Kind.ALWAYS, "replay-from-zero", p.replay_from_zero),
    _claim(Kind.ALWAYS, "scheduled-has-pages", p.scheduled_has_pages),
    _claim(Kind.ALWAYS, "infeasible-refused", p.infeasible_refused),
    _claim(Kind.EVENTUALLY, "no-dead-end", p.stays_dead, "A pass over live requests always decides something."),
    _claim(Kind.EVENTUALLY, "no-livelock", p.spins, "Busy passes never go round in circles without computing a token."),
    _claim(Kind.EVENTUALLY, "oldest-finishes", p.oldest_stays, "The oldest request finishes, whatever arrives later."),
    _claim(Kind.SOMETIMES, "sometimes-suspends", p.suspends),
    _claim(Kind.SOMETIMES, "sometimes-resumes", p.resumes),
    _claim(Kind.SOMETIMES, "sometimes-recompute-pauses-active", p.recompute_pauses_active),
    _claim(Kind.SOMETIMES, "sometimes-recompute-pauses-suspended", p.recompute_pauses_suspended),
    _claim(Kind.SOMETIMES, "sometimes-host-full", p.host_full),
    _claim(Kind.SOMETIMES, "sometimes-prefill-preempted", p.prefill_preempted),
)  # fmt: skip

NEEDS_HOST_TIER = frozenset(
    {"sometimes-suspends", "sometimes-resumes", "sometimes-recompute-pauses-suspended", "sometimes-host-full"}
)
"""Properties that say nothing without a tier below the GPU."""


@compiled_in_place
def facts(step: Step) -> int:
    """One bit a property, in the order of :data:`PROPERTIES`.

    Set for an *always* property: it is false of this step. Set for the others: what the predicate
    says. Spelled out, since Numba compiles a loop over functions slowly; a test compares it with the table.
    """
    bits = 0
    bits |= int(not p.page_conservation(step)) << 0
    bits |= int(not p.phase_residency(step)) << 1
    bits |= int(not p.legal_transition(step)) << 2
    bits |= int(not p.lists_disjoint(step)) << 3
    bits |= int(not p.victim_behind_requester(step)) << 4
    bits |= int(not p.victim_once_per_pass(step)) << 5
    bits |= int(not p.victim_makes_room(step)) << 6
    bits |= int(not p.active_victim_first(step)) << 7
    bits |= int(not p.only_when_needed(step)) << 8
    bits |= int(not p.decode_not_suspended_for_context(step)) << 9
    bits |= int(not p.no_suspension_without_lower_tier(step)) << 10
    bits |= int(not p.tokens_preserved(step)) << 11
    bits |= int(not p.replay_from_zero(step)) << 12
    bits |= int(not p.scheduled_has_pages(step)) << 13
    bits |= int(not p.infeasible_refused(step)) << 14
    bits |= int(p.stays_dead(step)) << 15
    bits |= int(p.spins(step)) << 16
    bits |= int(p.oldest_stays(step)) << 17
    bits |= int(p.suspends(step)) << 18
    bits |= int(p.resumes(step)) << 19
    bits |= int(p.recompute_pauses_active(step)) << 20
    bits |= int(p.recompute_pauses_suspended(step)) << 21
    bits |= int(p.host_full(step)) << 22
    bits |= int(p.prefill_preempted(step)) << 23
    return bits
