"""The request table as a row of 64-bit words, one a request: a state of the explorer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stallproof.bounds import MOST, MOST_PRIORITIES
from stallproof.compiled import compiled_in_place
from stallproof.requests import NOT_SUSPENDED, SUSPENDED, Requests, live
from stallproof.tiers import GPU, HOST, Tiers, abandoned, pages_being_filled

Words = npt.NDArray[np.uint64]


@compiled_in_place
def pack(requests: Requests, tiers: Tiers, words: Words) -> None:
    """Write the live requests, closed up and in order of priority, into ``words`` (uint64 (rows,)); the rest become 0.

    Where copies take time there is one word more, for the fenced pages of requests that have gone.

    Byte by byte from the lowest: phase, decoding and priority, tokens, output_left, computed, gpu_pages,
    host_pages, the place in the order of suspensions, which matters only while GPU pages are held, and copying.
    """
    w = 0
    for r in range(len(requests.phase)):
        if live(requests, r):
            place = NOT_SUSPENDED
            if requests.phase[r] == SUSPENDED and requests.gpu_pages[r] > 0:
                place = 1
                for other in range(len(requests.phase)):
                    if requests.phase[other] == SUSPENDED and requests.gpu_pages[other] > 0:
                        if requests.suspension[other] < requests.suspension[r]:
                            place += 1
            word = np.uint64(
                requests.phase[r]
                | requests.decoding[r] << 3
                | requests.priority[r] << 4
                | (requests.tokens[r] & MOST) << 8
                | (requests.output_left[r] & MOST) << 16
                | (requests.computed[r] & MOST) << 24
                | (requests.gpu_pages[r] & MOST) << 32
                | (requests.host_pages[r] & MOST) << 40
                | place << 48
                | (requests.copying[r] & MOST) << 56
            )
            at = w
            while at > 0 and _priority(words[at - 1]) > requests.priority[r]:
                words[at] = words[at - 1]
                at -= 1
            words[at] = word
            w += 1
    words[w:] = np.uint64(0)
    if len(words) > len(requests.phase):
        words[-1] = np.uint64(abandoned(requests, tiers, GPU) | abandoned(requests, tiers, HOST) << 8)


@compiled_in_place
def _priority(word: np.uint64) -> int:
    return np.int64(word) >> 4 & (MOST_PRIORITIES - 1)  # type: ignore[return-value] # a number of numpy's


@compiled_in_place
def unpack(words: Words, requests: Requests, tiers: Tiers) -> None:
    """The inverse of :func:`pack`; page counts of ``tiers`` follow from the requests."""
    tiers.free[GPU], tiers.free[HOST] = tiers.capacity[GPU], tiers.capacity[HOST]
    tiers.held[GPU], tiers.held[HOST] = 0, 0
    tiers.fenced[GPU], tiers.fenced[HOST] = 0, 0
    if len(words) > len(requests.phase):
        tiers.fenced[GPU], tiers.fenced[HOST] = np.int64(words[-1]) & MOST, np.int64(words[-1]) >> 8
    for r in range(len(requests.phase)):
        word = np.int64(words[r])
        requests.phase[r] = word & 7
        requests.decoding[r] = word >> 3 & 1
        requests.tokens[r] = word >> 8 & MOST
        requests.output_left[r] = word >> 16 & MOST
        requests.computed[r] = word >> 24 & MOST
        requests.gpu_pages[r] = word >> 32 & MOST
        requests.host_pages[r] = word >> 40 & MOST
        requests.suspension[r] = word >> 48 & MOST
        requests.copying[r] = word >> 56 & MOST
        requests.priority[r] = _priority(words[r])
        tiers.free[GPU] -= requests.gpu_pages[r]
        tiers.free[HOST] -= requests.host_pages[r]
        if requests.phase[r] == SUSPENDED:
            tiers.held[GPU] += requests.gpu_pages[r]
            tiers.held[HOST] += requests.host_pages[r]
        filled_on_gpu, filled_on_host = pages_being_filled(requests, r)
        tiers.fenced[GPU] += filled_on_host
        tiers.fenced[HOST] += filled_on_gpu
    for tier in range(2):
        tiers.free[tier] -= tiers.fenced[tier]


@compiled_in_place
def number_live(requests: Requests) -> int:
    """How many rows are live; they come first."""
    n = 0
    while n < len(requests.phase) and live(requests, n):
        n += 1
    return n
