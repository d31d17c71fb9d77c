"""Each rank looks for itself whether a copy is done, and plans with what it sees."""

from __future__ import annotations

from model_checking.ranks import Rank, Ranks
from stallproof.bounds import Bounds
from stallproof.policies import RESIDENT_FIRST

POLICY = RESIDENT_FIRST


def ranks(bounds: Bounds) -> Ranks:
    """A copy may be done on one rank and not on the other."""
    return Ranks(POLICY, (Rank(bounds), Rank(bounds)), agree_on_completions=False)


def good_ranks(bounds: Bounds) -> Ranks:
    """A copy counts as done when it is done on both."""
    return Ranks(POLICY, (Rank(bounds), Rank(bounds)))
