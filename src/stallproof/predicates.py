"""The predicates of the properties; the sentence of each is its docstring.

A predicate judges a :class:`stallproof.witness.Step`. It returns, for an *always* property, whether
the sentence is true of the step; for a *sometimes* property, whether it happened; for an
*eventually* property, whether the step leaves the sentence unfulfilled.

Sources: the invariants of ``rules.md`` and of the public failures it lists.
"""

from __future__ import annotations

from stallproof.compiled import compiled_part
from stallproof.requests import (
    ACTIVE,
    FINISHED,
    NEW,
    RECOMPUTE_PAUSED,
    SUSPENDED,
    WAITING,
    live,
)
from stallproof.tiers import (
    GPU,
    HOST,
    RECOMPUTE_PAUSE,
    RESUME,
    SUSPEND,
    has_lower_tier,
    pages_for,
    peak_pages,
)
from stallproof.witness import Step


@compiled_part
def page_conservation(step: Step) -> bool:
    """In each tier, free pages and the pages of all requests add up to the tier, and none is negative."""
    gpu, host, held_gpu, held_host = step.tiers.free[GPU], step.tiers.free[HOST], 0, 0
    for r in range(len(step.after.phase)):
        gpu += step.after.gpu_pages[r]
        host += step.after.host_pages[r]
        if step.after.gpu_pages[r] < 0 or step.after.host_pages[r] < 0:
            return False
        if step.after.phase[r] == SUSPENDED:
            held_gpu += step.after.gpu_pages[r]
            held_host += step.after.host_pages[r]
    return (
        gpu == step.tiers.capacity[GPU]
        and host == step.tiers.capacity[HOST]
        and step.tiers.free[GPU] >= 0
        and step.tiers.free[HOST] >= 0
        and held_gpu == step.tiers.held[GPU]
        and held_host == step.tiers.held[HOST]
    )


@compiled_part
def phase_residency(step: Step) -> bool:
    """An active request has exactly its tokens' pages, all on the GPU; a suspended one on either tier; others none."""
    for r in range(len(step.after.phase)):
        gpu, host, phase = step.after.gpu_pages[r], step.after.host_pages[r], step.after.phase[r]
        needed = pages_for(step.after.computed[r], step.tiers.page_tokens)
        if phase == ACTIVE and (host != 0 or gpu != needed):
            return False
        if phase == SUSPENDED and gpu + host != needed:
            return False
        if (phase == WAITING or phase == RECOMPUTE_PAUSED or phase == FINISHED or phase == NEW) and gpu + host != 0:
            return False
    return True


@compiled_part
def legal_transition(step: Step) -> bool:
    """Every operation is one the lifecycle allows, its guard true, and together they are all that happened."""
    return step.legal[0] == 1


@compiled_part
def lists_disjoint(step: Step) -> bool:
    """No request is on two of the lists scheduled, suspended and recompute-paused of one pass."""
    for r in range(len(step.plan.scheduled)):
        if step.plan.scheduled[r] > 0 and step.plan.given_up[r]:
            return False
    for k in range(step.plan.operations[0]):
        if step.plan.event[k] == RECOMPUTE_PAUSE:  # it may have been suspended before (promotion), never after
            for later in range(k + 1, step.plan.operations[0]):
                if step.plan.request[later] == step.plan.request[k]:
                    return False
    return True


@compiled_part
def victim_behind_requester(step: Step) -> bool:
    """Whoever is given up for another request arrived after it."""
    for k in range(step.give_ups.number[0]):
        if step.give_ups.victim[k] <= step.give_ups.requester[k]:
            return False
    return True


@compiled_part
def victim_once_per_pass(step: Step) -> bool:
    """No request is suspended twice or recompute-paused twice in one pass, nor suspended once recompute-paused."""
    for k in range(step.plan.operations[0]):
        event = step.plan.event[k]
        if event == SUSPEND or event == RECOMPUTE_PAUSE:
            for later in range(k + 1, step.plan.operations[0]):
                if step.plan.request[later] == step.plan.request[k]:
                    again = step.plan.event[later]
                    if again == SUSPEND or (again == RECOMPUTE_PAUSE and event == RECOMPUTE_PAUSE):
                        return False
    return True


@compiled_part
def victim_makes_room(step: Step) -> bool:
    """Every recompute-pause makes at least one more GPU page available to its requester."""
    for k in range(step.give_ups.number[0]):
        if step.give_ups.event[k] == RECOMPUTE_PAUSE:
            if step.give_ups.available_after[k] <= step.give_ups.available[k]:
                return False
    return True


@compiled_part
def active_victim_first(step: Step) -> bool:
    """A suspended request is recompute-paused only if no active candidate would have made room."""
    for k in range(step.give_ups.number[0]):
        if step.give_ups.event[k] == RECOMPUTE_PAUSE and step.give_ups.active_passed_over[k]:
            return False
    return True


@compiled_part
def only_when_needed(step: Step) -> bool:
    """Nobody is given up for a request that fitted, nor in vain: all candidates together would have made it fit."""
    for k in range(step.give_ups.number[0]):
        missing = step.give_ups.missing[k]
        if missing <= step.give_ups.available[k] or missing > step.give_ups.reachable[k]:
            return False
    return True


@compiled_part
def decode_not_suspended_for_context(step: Step) -> bool:
    """A decode is suspended only for a decode, never for a prefill."""
    for k in range(step.give_ups.number[0]):
        if step.give_ups.event[k] == SUSPEND and step.before.decoding[step.give_ups.victim[k]]:
            if not step.before.decoding[step.give_ups.requester[k]]:
                return False
    return True


@compiled_part
def no_suspension_without_lower_tier(step: Step) -> bool:
    """Without a tier below the GPU nobody is suspended."""
    return has_lower_tier(step.tiers) or not _any_event(step, SUSPEND)


@compiled_part
def tokens_preserved(step: Step) -> bool:
    """No known token is lost: they never get fewer, and with those still possible they add up to the same."""
    for r in range(len(step.after.phase)):
        if live(step.before, r):
            if step.after.tokens[r] < step.before.tokens[r]:
                return False
            if step.is_pass[0]:
                known_and_possible = step.before.tokens[r] + step.before.output_left[r]
                if step.after.tokens[r] + step.after.output_left[r] != known_and_possible:
                    return False
    return True


@compiled_part
def replay_from_zero(step: Step) -> bool:
    """A request that holds no pages has computed nothing, so its replay starts at position 0."""
    for r in range(len(step.after.phase)):
        phase = step.after.phase[r]
        if (phase == WAITING or phase == RECOMPUTE_PAUSED) and (step.after.computed[r] != 0 or step.after.decoding[r]):
            return False
    return True


@compiled_part
def scheduled_has_pages(step: Step) -> bool:
    """A scheduled request is on the GPU with a page for every token it will have computed."""
    for r in range(len(step.plan.scheduled)):
        if step.plan.scheduled[r] > 0 and step.after.phase[r] != FINISHED:
            needed = pages_for(step.before.computed[r] + step.plan.scheduled[r], step.tiers.page_tokens)
            if step.after.phase[r] != ACTIVE or step.after.gpu_pages[r] < needed:
                return False
    return True


@compiled_part
def infeasible_refused(step: Step) -> bool:
    """No live request has a peak that exceeds the GPU's pages: such a request is refused at arrival."""
    for r in range(len(step.after.phase)):
        if live(step.after, r):
            peak = peak_pages(step.after.tokens[r], step.after.output_left[r], step.tiers.page_tokens)
            if peak > step.tiers.capacity[GPU]:
                return False
    return True


@compiled_part
def stays_dead(step: Step) -> bool:
    """A pass over live requests decided nothing: no page moved, no token was scheduled, nobody was given up."""
    return bool(step.is_pass[0]) and _any_live(step) and step.plan.operations[0] == 0


@compiled_part
def spins(step: Step) -> bool:
    """A pass over live requests was busy, but scheduled no token."""
    return bool(step.is_pass[0]) and _any_live(step) and step.plan.operations[0] > 0 and not _any_scheduled(step)


@compiled_part
def oldest_stays(step: Step) -> bool:
    """The oldest live request is still live afterwards."""
    return live(step.before, 0) and live(step.after, 0)


@compiled_part
def suspends(step: Step) -> bool:
    """A request is suspended."""
    return _any_event(step, SUSPEND)


@compiled_part
def resumes(step: Step) -> bool:
    """A suspended request resumes."""
    return _any_event(step, RESUME)


@compiled_part
def recompute_pauses_active(step: Step) -> bool:
    """An active request is recompute-paused."""
    return _any_give_up(step, RECOMPUTE_PAUSE, ACTIVE)


@compiled_part
def recompute_pauses_suspended(step: Step) -> bool:
    """A suspended request is recompute-paused."""
    return _any_give_up(step, RECOMPUTE_PAUSE, SUSPENDED)


@compiled_part
def host_full(step: Step) -> bool:
    """The host tier is full."""
    return has_lower_tier(step.tiers) and step.tiers.free[HOST] == 0


@compiled_part
def prefill_preempted(step: Step) -> bool:
    """A request in the middle of its prefill is given up."""
    for k in range(step.give_ups.number[0]):
        if not step.before.decoding[step.give_ups.victim[k]]:
            return True
    return False


@compiled_part
def _any_event(step: Step, event: int) -> bool:
    for k in range(step.plan.operations[0]):
        if step.plan.event[k] == event:
            return True
    return False


@compiled_part
def _any_give_up(step: Step, event: int, phase: int) -> bool:
    for k in range(step.give_ups.number[0]):
        if step.give_ups.event[k] == event and step.give_ups.phase[k] == phase:
            return True
    return False


@compiled_part
def _any_live(step: Step) -> bool:
    return live(step.before, 0)


@compiled_part
def _any_scheduled(step: Step) -> bool:
    for r in range(len(step.plan.scheduled)):
        if step.plan.scheduled[r] > 0:
            return True
    return False
