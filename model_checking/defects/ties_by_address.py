"""Whose pages leave first is a tie, broken by an address, which is another one on every rank."""

from __future__ import annotations

from collections.abc import Iterable

from model_checking.ranks import Rank, Ranks
from stallproof.bounds import Bounds
from stallproof.policies import RESIDENT_FIRST
from stallproof.requests import NOBODY, SUSPENDED, Requests


def first_suspended(requests: Requests, but: int) -> int:
    """In one process the first of those with GPU pages has the lower address."""
    return _first_of(range(len(requests.phase)), requests, but)


def last_suspended(requests: Requests, but: int) -> int:
    """In another process the last."""
    return _first_of(reversed(range(len(requests.phase))), requests, but)


def _first_of(rows: Iterable[int], requests: Requests, but: int) -> int:
    for r in rows:
        if requests.phase[r] == SUSPENDED and requests.gpu_pages[r] > 0 and r != but:
            return r
    return NOBODY


POLICY = RESIDENT_FIRST


def ranks(bounds: Bounds) -> Ranks:
    """Two processes."""
    orders = (first_suspended, last_suspended)
    one, other = (Rank(bounds, {"room.oldest_suspension": order}) for order in orders)
    return Ranks(POLICY, (one, other))


def good_ranks(bounds: Bounds) -> Ranks:
    """The order of suspensions is total, and the same on both."""
    return Ranks(POLICY, (Rank(bounds), Rank(bounds)))
