"""A cancelled request gives back its GPU pages alone; those it has on the host are nobody's and not free."""

from __future__ import annotations

from stallproof import tiers as counts
from stallproof.policies import RESIDENT_FIRST
from stallproof.requests import Requests
from stallproof.tiers import CANCEL, HOST, Tiers


def apply(requests: Requests, tiers: Tiers, event: int, r: int, pages: int) -> None:
    """As ever, but a cancelled request keeps its host pages."""
    forgotten = requests.host_pages[r] if event == CANCEL else 0
    counts.apply(requests, tiers, event, r, pages)
    requests.host_pages[r] += forgotten
    tiers.free[HOST] -= forgotten


POLICY = RESIDENT_FIRST
REPLACED = {"plan.apply": apply}
