"""Pages that a copy still reads or fills become free when their request goes: nothing orders copy and re-use."""

from __future__ import annotations

from stallproof import tiers as counts
from stallproof.policies import RESIDENT_FIRST
from stallproof.requests import Requests
from stallproof.tiers import CANCEL, Tiers


def apply(requests: Requests, tiers: Tiers, event: int, r: int, pages: int) -> None:
    """As ever, but the copies of a request that goes count as done."""
    if event == CANCEL:
        counts.settle(requests, tiers, r)
    counts.apply(requests, tiers, event, r, pages)


POLICY = RESIDENT_FIRST
REPLACED = {"plan.apply": apply}
