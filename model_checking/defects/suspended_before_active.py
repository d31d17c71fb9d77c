"""K3 and K4 merged: the newest candidate whose loss makes room, active or suspended alike."""

from __future__ import annotations

from stallproof.candidates import is_candidate, pages_gained
from stallproof.plan import Plan
from stallproof.policies import RESIDENT_FIRST, victim
from stallproof.requests import NOBODY, Requests
from stallproof.tiers import Tiers


@victim
def newest_helpful_of_either_phase(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> int:
    """R1, R2, R3, but a suspended candidate is taken before an older active one."""
    for v in range(len(requests.phase) - 1, requester, -1):
        if is_candidate(requests, plan.scheduled, requester, v):
            if pages_gained(requests, tiers, requester, v) > 0:
                return v
    return NOBODY


POLICY = RESIDENT_FIRST.changed(
    "suspended-before-active",
    "resident-first with K3 and K4 merged: the newest victim, active or suspended",
    victim_to_pause_for_decode=newest_helpful_of_either_phase,
    victim_to_pause_for_prefill=newest_helpful_of_either_phase,
)
