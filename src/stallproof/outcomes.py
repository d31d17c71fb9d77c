"""What an engine reports: counts, refusals, violations, and who waits for what when it stalls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stallproof.errors import StallproofError
from stallproof.lifecycle import Phase
from stallproof.requests import Requests
from stallproof.tiers import GPU, HOST, Tiers, missing_pages

MOST_NAMED = 5
"""Requests that a stall report names."""


class Refusal(NamedTuple):
    """Why a request was not accepted. It would never fit, however long it waited."""

    peak_pages: int
    gpu_pages: int

    def __str__(self) -> str:
        return f"needs {self.peak_pages} pages at its longest, and the GPU has {self.gpu_pages}"


class Violation(NamedTuple):
    """A property that a pass made false."""

    property: str
    sentence: str
    pass_number: int

    def __str__(self) -> str:
        return f"pass {self.pass_number}: {self.property} is violated: {self.sentence}"


class Stall(StallproofError):
    """Nothing can change any more: the pass decides the same nothing for ever. The text says who waits for what."""


class AllocationFailure(Stall):
    """The policy raises: an allocation failed, and its engine has no answer to that. The text names the knobs."""


@dataclass
class Counts:
    """What happened since the engine started. Pages and tokens are totals over all passes."""

    passes: int = 0
    finished: int = 0
    cancelled: int = 0
    tokens: int = 0
    suspends: int = 0
    resumes: int = 0
    recompute_pauses: int = 0
    useless_victims: int = 0
    recomputed_tokens: int = 0
    pages_offloaded: int = 0
    pages_onboarded: int = 0
    content_checks: int = 0
    content_errors: int = 0
    peak_gpu_pages: int = 0


def stall_report(passes: int, requests: Requests, tiers: Tiers, ids: Sequence[int], chunk_tokens: int) -> str:
    """Who waits for how many pages, who has them, and what to do about it.

    ``requests``: live rows only; ``ids``: the id of each.
    """

    remedy = f"more GPU pages (now {int(tiers.capacity[GPU])}), fewer requests, or another policy."
    headline = f"stalled at pass {passes}: no pass computes a token any more."
    return _report(headline, requests, tiers, ids, chunk_tokens, remedy)


def failure_report(
    policy: str, remedy: str, passes: int, requests: Requests, tiers: Tiers, ids: Sequence[int], chunk_tokens: int
) -> str:
    """The same where ``policy`` raises. ``requests`` and ``tiers``: before the pass."""
    headline = f"an allocation failed at pass {passes}, and {policy} raises: the server stops."
    return _report(headline, requests, tiers, ids, chunk_tokens, remedy)


def _report(headline: str, requests: Requests, tiers: Tiers, ids: Sequence[int], chunk_tokens: int, remedy: str) -> str:
    def who(r: int) -> str:
        return f"  request {ids[r]} ({Phase(int(requests.phase[r])).label})"

    lines = [headline]
    for r in range(min(len(ids), MOST_NAMED)):
        tokens = 1 if requests.decoding[r] else min(chunk_tokens, int(requests.tokens[r] - requests.computed[r]))
        lines.append(f"{who(r)} waits for {int(missing_pages(requests, tiers, r, tokens))} GPU pages")
    if len(ids) > MOST_NAMED:
        lines.append(f"  and {len(ids) - MOST_NAMED} more requests wait")
    lines.append(f"  free: {int(tiers.free[GPU])} GPU pages, {int(tiers.free[HOST])} host pages")
    holders = sorted(range(len(ids)), key=lambda r: -int(requests.gpu_pages[r] + requests.host_pages[r]))
    for r in holders[:MOST_NAMED]:
        gpu, host = int(requests.gpu_pages[r]), int(requests.host_pages[r])
        if gpu or host:
            lines.append(f"{who(r)} has {gpu} GPU and {host} host pages")
    rest = [r for r in holders[MOST_NAMED:] if requests.gpu_pages[r] + requests.host_pages[r] > 0]
    if rest:
        gpu, host = (int(column[rest].sum()) for column in (requests.gpu_pages, requests.host_pages))
        lines.append(f"  and {len(rest)} more requests have {gpu} GPU and {host} host pages")
    lines.append(f"  remedy: {remedy}")
    return "\n".join(lines)
