"""A request that this pass has scheduled is a victim: it stays in the batch while its pages go to another."""

from __future__ import annotations

from stallproof.plan import Plan
from stallproof.policies import RESIDENT_FIRST, victim
from stallproof.requests import ACTIVE, NOBODY, Requests
from stallproof.tiers import Tiers


@victim
def newest_active_scheduled_or_not(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> int:
    """The newest active request behind the requester."""
    for v in range(len(requests.phase) - 1, requester, -1):
        if requests.phase[v] == ACTIVE and requests.computed[v] > 0 and requests.copying[v] == 0:
            return v
    return NOBODY


POLICY = RESIDENT_FIRST.changed(
    "scheduled-victim",
    "resident-first, but a request that this pass has scheduled may be given up",
    victim_to_pause_for_prefill=newest_active_scheduled_or_not,
)
