"""A request resumes while the copy of its pages to the host is in flight: it may load half-written pages."""

from __future__ import annotations

from stallproof.plan import Plan
from stallproof.policies import RESIDENT_FIRST
from stallproof.policies.interface import Rules
from stallproof.requests import SUSPENDED, Requests
from stallproof.room import FITS, LACKS_PAGES, LOADS, come_back, serve
from stallproof.tiers import Tiers


def try_to_schedule(requests: Requests, tiers: Tiers, rules: Rules, plan: Plan, r: int, tokens: int) -> int:
    """H1; only a copy back to the GPU is waited for."""
    if requests.copying[r] > 0 and requests.phase[r] != SUSPENDED:
        return LOADS
    if requests.phase[r] == SUSPENDED:
        if not rules.worth_resuming(requests, tiers, plan, r, tokens):
            return LACKS_PAGES
        outcome = come_back(requests, tiers, plan, r)
        if outcome != FITS:
            return outcome
    return serve(requests, tiers, plan, r, tokens)


POLICY = RESIDENT_FIRST
REPLACED = {"scheduling.try_to_schedule": try_to_schedule}
