"""K4 missing: a prefill gives up active requests only, and waits for pages that suspended ones hold."""

from __future__ import annotations

from stallproof.candidates import is_candidate, pages_gained
from stallproof.plan import Plan
from stallproof.policies import RESIDENT_FIRST, victim
from stallproof.requests import ACTIVE, NOBODY, Requests
from stallproof.tiers import Tiers


@victim
def newest_helpful_active(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> int:
    """K3 without K4: the newest active candidate whose loss makes room."""
    for v in range(len(requests.phase) - 1, requester, -1):
        if requests.phase[v] == ACTIVE and is_candidate(requests, plan.scheduled, requester, v):
            if pages_gained(requests, tiers, requester, v) > 0:
                return v
    return NOBODY


POLICY = RESIDENT_FIRST.changed(
    "context-ignores-suspended",
    "resident-first without K4: a prefill gives up active requests only",
    victim_to_pause_for_prefill=newest_helpful_active,
)
