"""H2 run on a GPU-only pool: requests are suspended where no tier below the GPU could take their pages."""

from __future__ import annotations

from stallproof.candidates import newest_candidate
from stallproof.plan import Plan
from stallproof.policies import RESIDENT_FIRST, victim
from stallproof.requests import ACTIVE, Requests
from stallproof.tiers import Tiers


@victim
def newest_active_on_any_pool(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> int:
    """H2 without its condition."""
    return newest_candidate(requests, plan.scheduled, requester, ACTIVE)


POLICY = RESIDENT_FIRST.changed(
    "suspend-without-lower-tier",
    "resident-first, but it suspends on a GPU-only pool too",
    victim_to_suspend=newest_active_on_any_pool,
)
