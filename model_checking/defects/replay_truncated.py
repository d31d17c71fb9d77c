"""A replay drops what is not computed yet: the newest generated token of a decode is lost."""

from __future__ import annotations

from stallproof import tiers as counts
from stallproof.policies import RESIDENT_FIRST
from stallproof.requests import Requests
from stallproof.tiers import RECOMPUTE_PAUSE, Tiers


def apply(requests: Requests, tiers: Tiers, event: int, r: int, pages: int) -> None:
    """As ever, but a recompute-paused decode keeps only the tokens it had computed."""
    if event == RECOMPUTE_PAUSE and requests.decoding[r]:
        requests.tokens[r] = requests.computed[r]
    counts.apply(requests, tiers, event, r, pages)


POLICY = RESIDENT_FIRST
REPLACED = {"plan.apply": apply}
