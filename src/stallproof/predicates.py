"""The predicates of the *always* properties; the sentence of each is its docstring.

A predicate judges a :class:`stallproof.witness.Step`: whether the sentence is true of it.

Sources: the invariants of ``rules.md`` and of the public failures it lists.
"""

from __future__ import annotations

from stallproof.bounds import MOST_PRIORITIES
from stallproof.compiled import compiled_part
from stallproof.limits import tokens_wanted
from stallproof.requests import (
    ACTIVE,
    FINISHED,
    NEW,
    NOBODY,
    RECOMPUTE_PAUSED,
    SUSPENDED,
    WAITING,
    live,
)
from stallproof.tiers import (
    CANCEL,
    FINISH,
    GPU,
    HOST,
    RECOMPUTE_PAUSE,
    SUSPEND,
    abandoned,
    has_lower_tier,
    pages_to_hold,
    peak_to_hold,
)
from stallproof.witness import Step


@compiled_part
def page_conservation(step: Step) -> bool:
    """In each tier, free pages, fenced ones and those of all requests add up to the tier, and none is negative."""
    gpu, host = step.tiers.free[GPU] + step.tiers.fenced[GPU], step.tiers.free[HOST] + step.tiers.fenced[HOST]
    held_gpu, held_host = 0, 0
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
def tokens_with_room(step: Step, r: int) -> int:
    """Tokens not computed yet that ``r`` may have pages for: drafts, and what it resumed for while copies ran."""
    if step.tiers.copies_take_time:
        return tokens_wanted(step.after, step.limits, r, step.limits.tokens)
    return step.limits.lookahead if step.after.decoding[r] else 0


@compiled_part
def phase_residency(step: Step) -> bool:
    """An active request has its tokens' (and drafts') pages, all on the GPU; a suspended one anywhere; others none."""
    for r in range(len(step.after.phase)):
        gpu, host, phase = step.after.gpu_pages[r], step.after.host_pages[r], step.after.phase[r]
        needed = pages_to_hold(step.tiers, step.after.computed[r])
        most = needed
        if phase == ACTIVE or phase == SUSPENDED:
            most = pages_to_hold(step.tiers, step.after.computed[r] + tokens_with_room(step, r))
        if phase == ACTIVE and (host != 0 or gpu < needed or gpu > most):
            return False
        if phase == SUSPENDED and (gpu + host < needed or gpu + host > most):
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
    """Whoever is given up for another request has a lower priority, or the same and arrived after it."""
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
def victim_not_copying(step: Step) -> bool:
    """Nobody is given up for another request while a copy moves its pages: they could not be had now."""
    for k in range(step.give_ups.number[0]):
        if step.give_ups.copying[k] > 0:
            return False
    return True


@compiled_part
def victim_unfinished(step: Step) -> bool:
    """Nobody is given up for another request once its last token is generated."""
    for k in range(step.give_ups.number[0]):
        if step.before.output_left[step.give_ups.victim[k]] == 0:
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
    return has_lower_tier(step.tiers) or not any_event(step, SUSPEND)


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
            needed = pages_to_hold(step.tiers, step.before.computed[r] + step.plan.scheduled[r])
            if step.after.phase[r] != ACTIVE or step.after.gpu_pages[r] < needed:
                return False
    return True


@compiled_part
def infeasible_refused(step: Step) -> bool:
    """No live request has a peak that exceeds the GPU's pages: such a request is refused at arrival."""
    for r in range(len(step.after.phase)):
        if live(step.after, r):
            tokens, left = step.after.tokens[r], step.after.output_left[r]
            if peak_to_hold(step.tiers, tokens, left, step.limits.lookahead) > step.tiers.capacity[GPU]:
                return False
    return True


@compiled_part
def no_priority_inversion(step: Step) -> bool:
    """A pass that leaves a request unscheduled, but for its copies, schedules none of a lower priority."""
    left_out = MOST_PRIORITIES
    for r in range(len(step.plan.scheduled)):  # in order of priority
        if step.plan.scheduled[r] > 0:
            if step.before.priority[r] > left_out:
                return False
        elif live(step.before, r) and step.before.copying[r] == 0 and step.after.copying[r] == 0:
            left_out = min(left_out, step.before.priority[r])
    return True


@compiled_part
def copy_fence(step: Step) -> bool:
    """A page that a copy in flight reads or writes becomes free only when the copy is done."""
    for tier in range(2):
        if step.settles[0] == NOBODY and step.tiers.fenced[tier] < step.tiers_before.fenced[tier]:
            return False
        if abandoned(step.after, step.tiers, tier) < 0:
            return False
    return True


@compiled_part
def resume_complete(step: Step) -> bool:
    """Nobody computes before every page of its resume has arrived."""
    for r in range(len(step.plan.scheduled)):
        if step.plan.scheduled[r] > 0 and (step.before.copying[r] > 0 or step.after.copying[r] > 0):
            return False
    return True


@compiled_part
def limits_kept(step: Step) -> bool:
    """A pass schedules at most as many requests, and as many tokens, as it may."""
    requests, tokens = 0, 0
    for r in range(len(step.plan.scheduled)):
        requests += int(step.plan.scheduled[r] > 0)
        tokens += step.plan.scheduled[r]
    return requests <= step.limits.requests and tokens <= step.limits.tokens


@compiled_part
def terminal_releases_once(step: Step) -> bool:
    """Whoever finishes or is cancelled does so once, and has no page of any tier left."""
    ends, ended = 0, 0
    for k in range(step.plan.operations[0]):
        ends += int(_ends(step, k))
    for r in range(len(step.after.phase)):
        if live(step.before, r) and step.after.phase[r] == FINISHED:
            ended += 1
            if step.after.gpu_pages[r] + step.after.host_pages[r] > 0:
                return False
            of_this = 0
            for k in range(step.plan.operations[0]):
                of_this += int(step.plan.request[k] == r and _ends(step, k))
            if of_this != 1:
                return False
    return ends == ended


@compiled_part
def _ends(step: Step, k: int) -> bool:
    return step.plan.event[k] == FINISH or step.plan.event[k] == CANCEL


@compiled_part
def any_event(step: Step, event: int) -> bool:
    """The plan has such an operation."""
    for k in range(step.plan.operations[0]):
        if step.plan.event[k] == event:
            return True
    return False
