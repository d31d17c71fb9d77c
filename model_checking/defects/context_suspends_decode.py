"""K7 broken: a prefill suspends its active victim where there is a lower tier, decode or not."""

from __future__ import annotations

from stallproof.plan import Plan, perform
from stallproof.policies import RESIDENT_FIRST
from stallproof.requests import ACTIVE, Requests
from stallproof.scheduling import K3_PAUSE_ACTIVE
from stallproof.scheduling import recompute_pause as pause
from stallproof.tiers import SUSPEND, Tiers, has_lower_tier


def recompute_pause(
    requests: Requests, tiers: Tiers, plan: Plan, victim: int, requester: int, *rules_counted: int
) -> None:
    """As ever for a decode; for a prefill an active victim is suspended."""
    for_prefill = rules_counted[0] == K3_PAUSE_ACTIVE
    if for_prefill and requests.phase[victim] == ACTIVE and has_lower_tier(tiers):
        perform(requests, tiers, plan, SUSPEND, victim, 0, requester)
    else:
        pause(requests, tiers, plan, victim, requester, *rules_counted)


POLICY = RESIDENT_FIRST
REPLACED = {"scheduling.recompute_pause": recompute_pause}
