"""A first chunk that does not fit keeps the pages it could get, and the request waits on them."""

from __future__ import annotations

from stallproof import room
from stallproof.plan import Plan
from stallproof.policies import RESIDENT_FIRST
from stallproof.requests import Requests
from stallproof.tiers import GPU, Tiers


def serve(requests: Requests, tiers: Tiers, plan: Plan, r: int, tokens: int) -> int:
    """As ever; but if a waiting request lacks pages it takes those that are free."""
    outcome = room.serve(requests, tiers, plan, r, tokens)
    if outcome == room.LACKS_PAGES and room.waits(requests, r):
        requests.gpu_pages[r] += tiers.free[GPU]
        tiers.free[GPU] = 0
    return outcome


POLICY = RESIDENT_FIRST
REPLACED = {"scheduling.serve": serve}
