"""A replay starts where the request was, as if a recurrent state had been kept: its pages are gone."""

from __future__ import annotations

from stallproof import tiers as counts
from stallproof.policies import RESIDENT_FIRST
from stallproof.requests import Requests
from stallproof.tiers import RECOMPUTE_PAUSE, Tiers


def apply(requests: Requests, tiers: Tiers, event: int, r: int, pages: int) -> None:
    """As ever, but a recompute-pause leaves the position as it is."""
    computed = requests.computed[r]
    counts.apply(requests, tiers, event, r, pages)
    if event == RECOMPUTE_PAUSE:
        requests.computed[r] = computed


POLICY = RESIDENT_FIRST
REPLACED = {"plan.apply": apply}
