"""What one step did, seen from outside: the plan replayed, operation by operation, over the state before it.

The properties judge a :class:`Step`. For each request that the step gave up, the replay notes what
was true at that moment: whether the requester fitted, what the victim's loss brought, who else
could have been taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stallproof.candidates import available_without_candidates, is_candidate, pages_gained
from stallproof.compiled import compiled_in_place, compiled_part
from stallproof.limits import Limits, tokens_wanted
from stallproof.lookup import ILLEGAL, NEXT_PHASE
from stallproof.plan import Plan, clear, new_plan
from stallproof.requests import (
    ACTIVE,
    NOBODY,
    Column,
    Requests,
    copy_requests,
    new_requests,
)
from stallproof.tiers import (
    ADMIT,
    ARRIVE,
    GPU,
    GROW,
    HOST,
    MIGRATE,
    RECOMPUTE_PAUSE,
    RESUME,
    SCHEDULE,
    SUSPEND,
    Tiers,
    apply,
    available,
    copy_tiers,
    has_lower_tier,
    missing_pages,
    new_tiers,
    peak_to_hold,
    settle,
    settle_abandoned,
)

ABANDONED = -2
"""``settles`` of a step in which the copies of requests that have gone are done."""


class GiveUps(NamedTuple):
    """One row for each request given up for another one, at the moment it was; ``number[0]`` rows are valid."""

    number: Column  # int64 (1,)
    event: Column  # int64 suspend or recompute-pause
    victim: Column  # int64 row
    requester: Column  # int64 row
    phase: Column  # int64 the victim's phase before
    copying: Column  # int64 pages of the victim that a copy was moving
    missing: Column  # int64 GPU pages the requester lacked
    available: Column  # int64 GPU pages it could get without this victim
    available_after: Column  # int64 and after it was given up
    reachable: Column  # int64 GPU pages it could get if every candidate were given up
    active_passed_over: Column  # int64 1 if an active candidate, whose loss would have made room, was there


class Step(NamedTuple):
    """One transition of the system: a pass with its tokens, or one move of the environment.

    ``before`` and ``after`` have the same rows; a request that finished or was cancelled still has
    its row in ``after``. The columns below ``plan`` are filled by :func:`replay`.
    """

    before: Requests
    tiers_before: Tiers
    after: Requests
    tiers: Tiers
    plan: Plan
    settles: Column  # int64 (1,) the row whose copies are done, ABANDONED for those of requests gone, or NOBODY
    is_pass: Column  # int64 (1,) 1 if the system moved, 0 if the environment did
    legal: Column  # int64 (1,) 1 if every operation was legal, and together they lead from before to after
    give_ups: GiveUps
    replayed: Requests
    replayed_tiers: Tiers
    scheduled: Column  # int64 (rows,) as the replay meets it
    limits: Limits


def new_step(
    rows: int,
    gpu_pages: int,
    host_pages: int,
    page_tokens: int,
    limits: Limits,
    copies_take_time: bool = False,
    state_pages: int = 0,
) -> Step:
    """Room for one step over a table of ``rows`` rows and two tiers."""

    def tiers() -> Tiers:
        return new_tiers(gpu_pages, host_pages, page_tokens, copies_take_time, state_pages)

    plan = new_plan(rows)
    most = len(plan.event)

    def flags() -> Column:
        return np.zeros(most, np.int64)

    def numbers() -> Column:
        return np.zeros(most, np.int64)

    return Step(
        before=new_requests(rows),
        tiers_before=tiers(),
        after=new_requests(rows),
        tiers=tiers(),
        plan=plan,
        settles=np.full(1, NOBODY, np.int64),
        is_pass=np.zeros(1, np.int64),
        legal=np.zeros(1, np.int64),
        give_ups=GiveUps(
            number=np.zeros(1, np.int64),
            event=flags(),
            victim=numbers(),
            requester=numbers(),
            phase=flags(),
            copying=numbers(),
            missing=numbers(),
            available=numbers(),
            available_after=numbers(),
            reachable=numbers(),
            active_passed_over=flags(),
        ),
        replayed=new_requests(rows),
        replayed_tiers=tiers(),
        scheduled=np.zeros(rows, np.int64),
        limits=limits,
    )


@compiled_in_place
def begin(step: Step, is_pass: int) -> None:
    """Make ``after`` equal to ``before`` and forget the last plan."""
    copy_requests(step.before, step.after)
    copy_tiers(step.tiers_before, step.tiers)
    clear(step.plan, step.limits)
    step.settles[0] = NOBODY
    step.is_pass[0] = is_pass
    step.legal[0] = 1
    step.give_ups.number[0] = 0


@compiled_in_place
def undo_if_failed(step: Step) -> None:
    """A pass in which the policy raised has decided nothing; only ``failed`` of its plan is left."""
    if step.plan.failed[0]:
        begin(step, 1)
        step.plan.failed[0] = 1


@compiled_in_place
def replay(step: Step) -> None:
    """Replay the plan of ``step`` from ``before``; fill ``legal`` and ``give_ups``.

    This is where a step is held against the contract: each operation must be a row of the transition
    table whose guard holds at that moment, and all of them together must lead to ``after``.
    """
    copy_requests(step.before, step.replayed)
    copy_tiers(step.tiers_before, step.replayed_tiers)
    step.scheduled[:] = 0
    step.give_ups.number[0] = 0
    step.legal[0] = 0
    settle_copies(step, step.replayed, step.replayed_tiers)
    for k in range(step.plan.operations[0]):
        event, r, requester = step.plan.event[k], step.plan.request[k], step.plan.requester[k]
        if NEXT_PHASE[step.replayed.phase[r], event] == ILLEGAL:
            return
        if not guard_holds(step, event, r, step.plan.amount[k]):
            return
        gives_up = (event == SUSPEND or event == RECOMPUTE_PAUSE) and requester >= 0
        if gives_up:
            _note_victim(step, event, r, requester)
        apply(step.replayed, step.replayed_tiers, event, r, step.plan.amount[k])
        if gives_up:
            last = step.give_ups.number[0] - 1
            step.give_ups.available_after[last] = available(step.replayed, step.replayed_tiers, requester)
        if event == SCHEDULE:
            step.scheduled[r] = step.plan.amount[k]
    for r in range(len(step.after.phase)):
        if (
            step.replayed.phase[r] != step.after.phase[r]
            or step.replayed.gpu_pages[r] != step.after.gpu_pages[r]
            or step.replayed.host_pages[r] != step.after.host_pages[r]
            or step.replayed.copying[r] != step.after.copying[r]
        ):
            return
    step.legal[0] = 1


@compiled_in_place
def settle_copies(step: Step, requests: Requests, tiers: Tiers) -> None:
    """The copies that the step says are done."""
    if step.settles[0] == ABANDONED:
        settle_abandoned(requests, tiers)
    elif step.settles[0] != NOBODY:
        settle(requests, tiers, step.settles[0])


@compiled_part
def guard_holds(step: Step, event: int, r: int, amount: int) -> bool:
    """The guard of the event's row in the transition table, and that ``amount`` is what the row says."""
    requests, tiers = step.replayed, step.replayed_tiers
    if event == ARRIVE:  # peak_fits_gpu
        tokens, left = step.after.tokens[r], step.after.output_left[r]
        return peak_to_hold(tiers, tokens, left, step.limits.lookahead) <= tiers.capacity[GPU]
    if event == ADMIT or event == GROW:  # pages_fit
        return 0 < amount <= tiers.free[GPU]
    if event == SCHEDULE:  # pages_hold_tokens
        room = (requests.gpu_pages[r] - tiers.state_pages) * tiers.page_tokens
        here = requests.host_pages[r] == 0 and requests.copying[r] == 0
        return amount > 0 and here and requests.computed[r] + amount <= room
    if event == SUSPEND:  # lower_tier
        return has_lower_tier(tiers) and requests.copying[r] == 0
    if event == MIGRATE:  # host_has_room
        return 0 < amount <= min(requests.gpu_pages[r], tiers.free[HOST])
    if event == RESUME:  # pages_fit
        return amount == requests.host_pages[r] and amount <= tiers.free[GPU] and requests.copying[r] == 0
    return True


@compiled_part
def _note_victim(step: Step, event: int, victim: int, requester: int) -> None:
    requests, tiers, notes = step.replayed, step.replayed_tiers, step.give_ups
    k = notes.number[0]
    notes.number[0] = k + 1
    notes.event[k] = event
    notes.victim[k] = victim
    notes.requester[k] = requester
    notes.phase[k] = requests.phase[victim]
    notes.copying[k] = requests.copying[victim]
    tokens_left = step.limits.tokens
    for r in range(len(step.scheduled)):
        tokens_left -= step.scheduled[r]
    tokens = tokens_wanted(requests, step.limits, requester, tokens_left)
    notes.missing[k] = missing_pages(requests, tiers, requester, tokens)
    notes.available[k] = available(requests, tiers, requester)
    notes.reachable[k] = available_without_candidates(requests, tiers, step.scheduled, requester)
    notes.active_passed_over[k] = 0
    if requests.phase[victim] != ACTIVE:
        for v in range(requester + 1, len(requests.phase)):
            if (
                requests.phase[v] == ACTIVE
                and is_candidate(requests, step.scheduled, requester, v)
                and pages_gained(requests, tiers, requester, v) > 0
            ):
                notes.active_passed_over[k] = 1


def first_rows(step: Step, n: int) -> Step:
    """The first ``n`` rows of every column that has one row a request."""

    def first(table: Requests) -> Requests:
        return Requests(*(column[:n] for column in table))

    return step._replace(
        before=first(step.before),
        after=first(step.after),
        plan=step.plan._replace(
            scheduled=step.plan.scheduled[:n],
            given_up=step.plan.given_up[:n],
            drafts_accepted=step.plan.drafts_accepted[:n],
        ),
        replayed=first(step.replayed),
        scheduled=step.scheduled[:n],
    )
