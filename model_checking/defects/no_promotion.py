"""R2 missing: a request that this pass suspended cannot be recompute-paused by it."""

from __future__ import annotations

from stallproof.candidates import is_candidate, pages_gained
from stallproof.plan import Plan
from stallproof.policies import RESIDENT_FIRST, victim
from stallproof.requests import ACTIVE, NOBODY, SUSPENDED, Requests
from stallproof.tiers import Tiers


@victim
def newest_helpful_not_given_up(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> int:
    """R1, R3: the newest candidate whose loss makes room, but for those this pass has given up already."""
    for phase in (ACTIVE, SUSPENDED):
        for v in range(len(requests.phase) - 1, requester, -1):
            if requests.phase[v] == phase and not plan.given_up[v]:
                if is_candidate(requests, plan.scheduled, requester, v):
                    if pages_gained(requests, tiers, requester, v) > 0:
                        return v
    return NOBODY


POLICY = RESIDENT_FIRST.changed(
    "no-promotion",
    "resident-first without R2: whom this pass suspended, it cannot recompute-pause",
    victim_to_pause_for_decode=newest_helpful_not_given_up,
    victim_to_pause_for_prefill=newest_helpful_not_given_up,
)
