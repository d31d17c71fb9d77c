"""Each rank sizes its own host tier: where one still has room for a page, the other has none."""

from __future__ import annotations

from model_checking.ranks import Rank, Ranks
from stallproof.bounds import Bounds
from stallproof.policies import RESIDENT_FIRST

POLICY = RESIDENT_FIRST


def ranks(bounds: Bounds) -> Ranks:
    """The second rank has a host page less."""
    return Ranks(POLICY, (Rank(bounds), Rank(bounds._replace(host_pages=bounds.host_pages - 1))))


def good_ranks(bounds: Bounds) -> Ranks:
    """Both have what the smaller one has."""
    smallest = bounds._replace(host_pages=bounds.host_pages - 1)
    return Ranks(POLICY, (Rank(smallest), Rank(smallest)))
