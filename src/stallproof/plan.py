"""What one pass decided: operations in order, and which rule decided how often."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from stallproof.compiled import compiled_in_place
from stallproof.limits import Limits
from stallproof.requests import Column, Requests, require_row
from stallproof.tiers import RECOMPUTE_PAUSE, SCHEDULE, SUSPEND, Tiers, apply


class Rule(IntEnum):
    """The rules of a pass (``rules.md``) whose firing is counted: coverage of the pass."""

    H1_DECODE_FITS = 0
    H2_SUSPEND_NEWEST_ACTIVE = 1
    H3_PAUSE_ACTIVE = 2
    H3_PAUSE_SUSPENDED = 3
    H3_PROMOTE = 4
    H4_SUSPEND_ITSELF = 5
    H5_STOP = 6
    CHUNK_FITS = 7
    K3_PAUSE_ACTIVE = 8
    K4_PAUSE_SUSPENDED = 9
    K4_PROMOTE = 10
    K5_WAIT = 11
    K6_KEEP_FREED_PAGES = 12
    R4_NO_BYPASS = 13
    R7_NOBODY_IN_VAIN = 14
    R9_NEXT_PRIORITY_WAITS = 15
    LIMIT_REACHED = 16
    R10_COPIES_MAKE_ROOM = 17
    R10_LOADS = 18

    @property
    def label(self) -> str:
        """The name people see."""
        number, _, words = self.name.partition("_")
        return (
            f"{number} {words.lower().replace('_', ' ')}"
            if number[1:].isdigit()
            else self.name.lower().replace("_", " ")
        )


REQUESTS, TOKENS = 0, 1
"""Places in ``left`` of a plan."""

SELF = -2
"""``requester`` of an operation that a request asks for itself."""


class Plan(NamedTuple):
    """The decisions of one pass, filled in place.

    ``operations[0]`` of the first four columns are valid; they are in the order in which the page
    manager must carry them out. Columns by request have a row for each row of the request table.
    """

    operations: Column  # int64 (1,) how many operations are valid
    event: Column  # int64 (capacity,) an Event
    request: Column  # int64 (capacity,) row of the request it happens to
    amount: Column  # int64 (capacity,) pages taken or moved; for schedule, tokens to compute
    requester: Column  # int64 (capacity,) row of the request that needs the pages; SELF if it is the same
    scheduled: Column  # int64 (rows,) tokens to compute in this pass; 0 if not scheduled
    given_up: Column  # int64 (rows,) 1 if this pass suspended or recompute-paused it
    drafts_accepted: Column  # int64 (rows,) of its drafts, how many were right; known once they are computed
    failed: Column  # int64 (1,) 1 if the policy raises: an allocation failed, and the server stops
    left: Column  # int64 (2,) requests and tokens that this pass may still schedule
    fired: Column  # int64 (rules,) how often each Rule decided something


def new_plan(rows: int) -> Plan:
    """An empty plan for a table of ``rows`` requests.

    Each request is admitted or grown, scheduled, suspended, resumed, recompute-paused and finished
    at most once a pass; each of the at most 2 x rows times that room is made ends after at most
    one migration that leaves pages behind, the others empty a suspended request.
    """
    capacity = 12 * rows + 8
    return Plan(
        operations=np.zeros(1, np.int64),
        event=np.zeros(capacity, np.int64),
        request=np.zeros(capacity, np.int64),
        amount=np.zeros(capacity, np.int64),
        requester=np.zeros(capacity, np.int64),
        scheduled=np.zeros(rows, np.int64),
        given_up=np.zeros(rows, np.int64),
        drafts_accepted=np.zeros(rows, np.int64),
        failed=np.zeros(1, np.int64),
        left=np.zeros(2, np.int64),
        fired=np.zeros(len(Rule), np.int64),
    )


@compiled_in_place
def clear(plan: Plan, limits: Limits) -> None:
    """Forget the last pass; ``fired`` goes on counting, and ``drafts_accepted`` is its owner's."""
    plan.operations[0] = 0
    plan.scheduled[:] = 0
    plan.given_up[:] = 0
    plan.failed[0] = 0
    plan.left[REQUESTS] = limits.requests
    plan.left[TOKENS] = limits.tokens


@compiled_in_place
def perform(requests: Requests, tiers: Tiers, plan: Plan, event: int, r: int, amount: int, requester: int) -> None:
    """Carry out ``event`` on the counts and write it into the plan.

    Raises IllegalTransition, with nothing changed, if the lifecycle does not allow it, IndexError if there is
    no row ``r``, and OverflowError if the pass decides more than any correct pass can.
    """
    require_row(requests, r)
    k = plan.operations[0]
    if k == len(plan.event):
        raise OverflowError("a pass decided more operations than requests allow: its policy gives up the same ones")
    apply(requests, tiers, event, r, amount)
    plan.event[k] = event
    plan.request[k] = r
    plan.amount[k] = amount
    plan.requester[k] = requester
    plan.operations[0] = k + 1
    if event == SCHEDULE:
        plan.scheduled[r] = amount
        plan.left[REQUESTS] -= 1
        plan.left[TOKENS] -= amount
    elif event == SUSPEND or event == RECOMPUTE_PAUSE:
        plan.given_up[r] = 1
