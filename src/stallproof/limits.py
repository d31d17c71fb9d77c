"""What one pass may schedule at most, and how many tokens a request wants of it."""

from __future__ import annotations

from typing import NamedTuple

from stallproof.bounds import Bounds
from stallproof.compiled import compiled_in_place
from stallproof.requests import Requests

UNLIMITED = 2**31 - 1
"""More requests or tokens than a pass can schedule."""


class Limits(NamedTuple):
    """The limits of one pass, in tokens and requests; each at least 1, the lookahead at least 0."""

    chunk_tokens: int  # prefill tokens of one request
    lookahead: int = 0  # tokens drafted for one decode, beside the one it computes anyway
    requests: int = UNLIMITED
    tokens: int = UNLIMITED  # of all requests together, drafts included


def limits_of(bounds: Bounds) -> Limits:
    """The limits of every pass within the bounds."""
    most_requests, most_tokens = bounds.pass_requests or UNLIMITED, bounds.pass_tokens or UNLIMITED
    return Limits(bounds.chunk_tokens, bounds.lookahead, most_requests, most_tokens)


@compiled_in_place
def tokens_wanted(requests: Requests, limits: Limits, r: int, tokens_left: int) -> int:
    """Tokens that ``r`` wants this pass to schedule: a decode its newest and its drafts, a prefill its next chunk.

    ``tokens_left``: what is left of the pass's tokens. A chunk shrinks to it, a decode does not.
    """
    if requests.decoding[r]:
        return 1 + limits.lookahead
    return min(limits.chunk_tokens, requests.tokens[r] - requests.computed[r], tokens_left)
