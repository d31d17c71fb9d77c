"""A request that has generated its last token, but is not yet filtered out, is a victim: finished work is lost.

The results of a step are processed during the next pass, after its decisions: :data:`LATE`. That by itself is
right, :data:`GOOD`, as long as whoever waits for its last result is no candidate.
"""

from __future__ import annotations

from stallproof.candidates import is_candidate as is_candidate_in_time
from stallproof.plan import SELF, Plan, perform
from stallproof.policies import RESIDENT_FIRST
from stallproof.requests import ACTIVE, Column, Requests
from stallproof.scheduling import wants_to_decode as wants_to_decode_in_time
from stallproof.tiers import FINISH, Tiers


def finalising(requests: Requests, r: int) -> bool:
    """Has generated its last token, in the step before."""
    return requests.phase[r] == ACTIVE and requests.decoding[r] == 1 and requests.output_left[r] == 0


def wants_to_decode(requests: Requests, plan: Plan, r: int) -> bool:
    """Not if it has its last token."""
    return wants_to_decode_in_time(requests, plan, r) and not finalising(requests, r)


def compute(requests: Requests, tiers: Tiers, plan: Plan) -> int:
    """Requests that the step before finished go; then the tokens of this step."""
    for r in range(len(requests.phase)):
        if finalising(requests, r):
            perform(requests, tiers, plan, FINISH, r, 0, SELF)
    return compute_only(requests, plan)


def compute_only(requests: Requests, plan: Plan) -> int:
    """The tokens of this step; nobody finishes."""
    generated = 0
    for r in range(len(requests.phase)):
        if plan.scheduled[r] > 0:
            requests.computed[r] += plan.scheduled[r]
            if requests.computed[r] == requests.tokens[r]:
                requests.decoding[r] = 1
                yields = min(1, requests.output_left[r])
                requests.tokens[r] += yields
                requests.output_left[r] -= yields
                generated += yields
    return generated


def is_candidate(requests: Requests, scheduled: Column, requester: int, v: int) -> bool:
    """Nobody who has generated its last token."""
    return is_candidate_in_time(requests, scheduled, requester, v) and not finalising(requests, v)


POLICY = RESIDENT_FIRST
LATE = {"scheduling.wants_to_decode": wants_to_decode, "model.compute": compute, "certifier.compute": compute}
REPLACED = LATE
GOOD = LATE | {"candidates.is_candidate": is_candidate}
