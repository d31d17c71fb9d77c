"""What happens in a step: the predicates of the *sometimes* and *eventually* properties.

Each judges a :class:`stallproof.witness.Step`. It returns, for a *sometimes* property, whether it
happened; for an *eventually* property, whether the step leaves the sentence unfulfilled.
"""

from __future__ import annotations

from stallproof.compiled import compiled_part
from stallproof.plan import REQUESTS, SELF, TOKENS
from stallproof.predicates import any_event
from stallproof.requests import ACTIVE, FINISHED, NOBODY, SUSPENDED, live
from stallproof.tiers import GPU, HOST, RECOMPUTE_PAUSE, RESUME, SUSPEND, copies_in_flight, has_lower_tier
from stallproof.witness import Step


@compiled_part
def stays_dead(step: Step) -> bool:
    """A pass over live requests, no copy in flight, decided nothing: no page moved, nobody was served or given up."""
    idle = step.plan.operations[0] == 0 and not copies_in_flight(step.tiers_before)
    return bool(step.is_pass[0]) and _any_live(step) and idle


@compiled_part
def spins(step: Step) -> bool:
    """A pass over live requests was busy, but scheduled no token; or a copy of such a pass is done."""
    if not step.is_pass[0]:
        return step.settles[0] != NOBODY
    return _any_live(step) and step.plan.operations[0] > 0 and not _any_scheduled(step)


@compiled_part
def host_stays_full(step: Step) -> bool:
    """The host tier is full before and after, and no token is scheduled."""
    if step.tiers_before.free[HOST] > 0 or not host_full(step) or not _any_live(step):
        return False
    return (bool(step.is_pass[0]) and not _any_scheduled(step)) or step.settles[0] != NOBODY


@compiled_part
def oldest_stays(step: Step) -> bool:
    """The oldest live request is still live afterwards, and none of a higher priority has arrived."""
    if not live(step.before, 0) or not live(step.after, 0):
        return False
    for r in range(len(step.after.phase)):
        if live(step.after, r) and step.after.priority[r] < step.after.priority[0]:
            return False
    return True


@compiled_part
def suspends(step: Step) -> bool:
    """A request is suspended."""
    return any_event(step, SUSPEND)


@compiled_part
def resumes(step: Step) -> bool:
    """A suspended request resumes."""
    return any_event(step, RESUME)


@compiled_part
def recompute_pauses_active(step: Step) -> bool:
    """An active request is recompute-paused, for another or for itself."""
    for k in range(step.plan.operations[0]):
        if step.plan.event[k] == RECOMPUTE_PAUSE and step.plan.requester[k] == SELF:
            return True
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
def drafts_accepted(step: Step) -> bool:
    """A draft is right."""
    return _drafts(step, True)


@compiled_part
def drafts_rejected(step: Step) -> bool:
    """A draft is wrong."""
    return _drafts(step, False)


@compiled_part
def priority_waits(step: Step) -> bool:
    """A pass leaves a request unscheduled because one of a higher priority lacks pages."""
    if not step.is_pass[0]:
        return False
    last = len(step.plan.scheduled) - 1
    while last > 0 and not live(step.before, last):
        last -= 1
    for r in range(last):
        if step.plan.scheduled[r] == 0 and step.before.priority[r] < step.before.priority[last]:
            return step.plan.scheduled[last] == 0
    return False


@compiled_part
def limit_reached(step: Step) -> bool:
    """A pass schedules as many requests or tokens as it may."""
    return _any_scheduled(step) and (step.plan.left[REQUESTS] == 0 or step.plan.left[TOKENS] <= step.limits.lookahead)


@compiled_part
def copies_make_room(step: Step) -> bool:
    """A pass waits for copies that free the pages it needs."""
    return bool(step.is_pass[0]) and step.tiers.fenced[GPU] > 0 and not _any_scheduled(step)


@compiled_part
def loads(step: Step) -> bool:
    """A pass leaves an active request out because its pages are on their way back."""
    for r in range(len(step.after.phase)):
        if step.is_pass[0] and step.before.phase[r] == ACTIVE and step.before.copying[r] > 0:
            return True
    return False


@compiled_part
def gone_while_copying(step: Step) -> bool:
    """A request goes while a copy of its pages is in flight."""
    for r in range(len(step.after.phase)):
        if step.before.copying[r] > 0 and step.after.phase[r] == FINISHED:
            return True
    return False


@compiled_part
def _drafts(step: Step, right: bool) -> bool:
    for r in range(len(step.plan.scheduled)):
        if step.plan.scheduled[r] > 1 and step.before.decoding[r]:
            accepted = step.plan.drafts_accepted[r]
            if (accepted > 0) if right else (accepted < step.limits.lookahead):
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
