"""A full host counts as success: pages leave the GPU although none could be copied."""

from __future__ import annotations

from stallproof.plan import Plan
from stallproof.policies import RESIDENT_FIRST
from stallproof.requests import NOBODY, Requests
from stallproof.room import FITS, LACKS_PAGES
from stallproof.room import make_room as make_room_or_fail
from stallproof.tiers import GPU, Tiers, oldest_suspension


def make_room(requests: Requests, tiers: Tiers, plan: Plan, r: int, pages: int) -> int:
    """As ever; where that fails, suspended requests lose their GPU pages without a copy."""
    outcome = make_room_or_fail(requests, tiers, plan, r, pages)
    if outcome != LACKS_PAGES:
        return outcome
    while tiers.free[GPU] < pages:
        holder = oldest_suspension(requests, r)
        if holder == NOBODY:
            return LACKS_PAGES
        requests.gpu_pages[holder] -= 1
        tiers.held[GPU] -= 1
        tiers.free[GPU] += 1
    return FITS


POLICY = RESIDENT_FIRST
REPLACED = {"room.make_room": make_room}
