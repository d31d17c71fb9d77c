"""R10 in part: a request whose pages are being copied is a victim, though its pages cannot be had now."""

from __future__ import annotations

from stallproof.candidates import pages_gained
from stallproof.plan import Plan
from stallproof.policies import RESIDENT_FIRST, victim
from stallproof.requests import ACTIVE, NOBODY, SUSPENDED, Requests
from stallproof.tiers import Tiers


@victim
def newest_helpful_copied_or_not(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> int:
    """R1, R2, R3 without looking at copies in flight."""
    for phase in (ACTIVE, SUSPENDED):
        for v in range(len(requests.phase) - 1, requester, -1):
            if requests.phase[v] == phase and requests.computed[v] > 0 and plan.scheduled[v] == 0:
                if pages_gained(requests, tiers, requester, v) > 0:
                    return v
    return NOBODY


POLICY = RESIDENT_FIRST.changed(
    "fenced-victim",
    "resident-first, but a request whose pages are being copied may be given up",
    victim_to_pause_for_decode=newest_helpful_copied_or_not,
    victim_to_pause_for_prefill=newest_helpful_copied_or_not,
)
