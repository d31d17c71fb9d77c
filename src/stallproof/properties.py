"""The properties of a request lifecycle under page pressure, by the names people see.

The sentence of a property is its predicate's docstring, in :mod:`stallproof.predicates` or
:mod:`stallproof.occurrences`.
"""

from __future__ import annotations

from collections.abc import Callable

from stallproof import occurrences as o
from stallproof import predicates as p
from stallproof.bounds import Bounds
from stallproof.claims import Claim, Kind
from stallproof.compiled import compiled_in_place
from stallproof.witness import Step


def _claim(kind: Kind, name: str, predicate: Callable[[Step], bool], sentence: str = "") -> Claim:
    """The sentence is the predicate's docstring, unless the predicate is about a single step of a cycle."""
    return Claim(name, kind, sentence or str(predicate.__doc__), predicate)


OLDEST_FINISHES = "The oldest request finishes, whatever arrives later at its priority or below."

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
    _claim(Kind.ALWAYS, "no-priority-inversion", p.no_priority_inversion),
    _claim(Kind.ALWAYS, "copy-fence", p.copy_fence),
    _claim(Kind.ALWAYS, "resume-complete", p.resume_complete),
    _claim(Kind.ALWAYS, "terminal-releases-once", p.terminal_releases_once),
    _claim(Kind.ALWAYS, "limits-kept", p.limits_kept),
    _claim(Kind.ALWAYS, "victim-not-copying", p.victim_not_copying),
    _claim(Kind.ALWAYS, "victim-unfinished", p.victim_unfinished),
    _claim(Kind.EVENTUALLY, "no-dead-end", o.stays_dead, "A pass over live requests always decides something."),
    _claim(Kind.EVENTUALLY, "no-livelock", o.spins, "Busy passes never go round in circles without computing a token."),
    _claim(Kind.EVENTUALLY, "oldest-finishes", o.oldest_stays, OLDEST_FINISHES),
    _claim(Kind.EVENTUALLY, "host-full-has-a-way-out", o.host_stays_full, "With the host full, tokens are computed."),
    _claim(Kind.SOMETIMES, "sometimes-suspends", o.suspends),
    _claim(Kind.SOMETIMES, "sometimes-resumes", o.resumes),
    _claim(Kind.SOMETIMES, "sometimes-recompute-pauses-active", o.recompute_pauses_active),
    _claim(Kind.SOMETIMES, "sometimes-recompute-pauses-suspended", o.recompute_pauses_suspended),
    _claim(Kind.SOMETIMES, "sometimes-host-full", o.host_full),
    _claim(Kind.SOMETIMES, "sometimes-prefill-preempted", o.prefill_preempted),
    _claim(Kind.SOMETIMES, "sometimes-draft-accepted", o.drafts_accepted),
    _claim(Kind.SOMETIMES, "sometimes-draft-rejected", o.drafts_rejected),
    _claim(Kind.SOMETIMES, "sometimes-lower-priority-waits", o.priority_waits),
    _claim(Kind.SOMETIMES, "sometimes-limit-reached", o.limit_reached),
    _claim(Kind.SOMETIMES, "sometimes-copies-make-room", o.copies_make_room),
    _claim(Kind.SOMETIMES, "sometimes-loads", o.loads),
    _claim(Kind.SOMETIMES, "sometimes-gone-while-copying", o.gone_while_copying),
)  # fmt: skip

NEEDS: dict[str, Callable[[Bounds], bool]] = {
    "no-priority-inversion": lambda bounds: bounds.priorities > 1,
    "sometimes-lower-priority-waits": lambda bounds: bounds.priorities > 1,
    "limits-kept": lambda bounds: bounds.pass_requests + bounds.pass_tokens > 0,
    "copy-fence": lambda bounds: bounds.copies and bounds.host_pages > 0,
    "resume-complete": lambda bounds: bounds.copies and bounds.host_pages > 0,
    "victim-not-copying": lambda bounds: bounds.copies and bounds.host_pages > 0,
    "host-full-has-a-way-out": lambda bounds: bounds.host_pages > 0,
    "sometimes-draft-accepted": lambda bounds: bounds.lookahead > 0 and bounds.max_output > 1,
    "sometimes-draft-rejected": lambda bounds: bounds.lookahead > 0 and bounds.max_output > 1,
    "sometimes-limit-reached": lambda bounds: bounds.pass_requests + bounds.pass_tokens > 0,
}
"""Properties that say something only within some bounds."""

HAPPENS_WITHOUT_PRESSURE = frozenset(
    {"sometimes-draft-accepted", "sometimes-draft-rejected", "sometimes-limit-reached"}
)
"""The *sometimes* properties that need no more demand than there are pages."""

NEEDS_COPIES = frozenset({"sometimes-copies-make-room", "sometimes-loads", "sometimes-gone-while-copying"})
"""Properties that say nothing where copies take no time."""

NEEDS_HOST_TIER = NEEDS_COPIES | {
    "sometimes-suspends",
    "sometimes-resumes",
    "sometimes-recompute-pauses-suspended",
    "sometimes-host-full",
}
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
    bits |= int(not p.no_priority_inversion(step)) << 15
    bits |= int(not p.copy_fence(step)) << 16
    bits |= int(not p.resume_complete(step)) << 17
    bits |= int(not p.terminal_releases_once(step)) << 18
    bits |= int(not p.limits_kept(step)) << 19
    bits |= int(not p.victim_not_copying(step)) << 20
    bits |= int(not p.victim_unfinished(step)) << 21
    bits |= int(o.stays_dead(step)) << 22
    bits |= int(o.spins(step)) << 23
    bits |= int(o.oldest_stays(step)) << 24
    bits |= int(o.host_stays_full(step)) << 25
    bits |= int(o.suspends(step)) << 26
    bits |= int(o.resumes(step)) << 27
    bits |= int(o.recompute_pauses_active(step)) << 28
    bits |= int(o.recompute_pauses_suspended(step)) << 29
    bits |= int(o.host_full(step)) << 30
    bits |= int(o.prefill_preempted(step)) << 31
    bits |= int(o.drafts_accepted(step)) << 32
    bits |= int(o.drafts_rejected(step)) << 33
    bits |= int(o.priority_waits(step)) << 34
    bits |= int(o.limit_reached(step)) << 35
    bits |= int(o.copies_make_room(step)) << 36
    bits |= int(o.loads(step)) << 37
    bits |= int(o.gone_while_copying(step)) << 38
    return bits
