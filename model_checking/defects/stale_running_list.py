"""The running list as it was before the pass is restored after it: whom the pass gave up runs again, without pages."""

from __future__ import annotations

from stallproof import scheduling
from stallproof.plan import Plan
from stallproof.policies import RESIDENT_FIRST
from stallproof.requests import ACTIVE, Requests
from stallproof.tiers import Tiers


def compute(requests: Requests, tiers: Tiers, plan: Plan) -> int:
    """As ever; then everybody given up in this pass is active."""
    generated = scheduling.compute(requests, tiers, plan)
    for r in range(len(requests.phase)):
        if plan.given_up[r]:
            requests.phase[r] = ACTIVE
    return generated


POLICY = RESIDENT_FIRST
REPLACED = {"model.compute": compute, "certifier.compute": compute}
