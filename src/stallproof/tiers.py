"""Page counts of the two tiers, and what each lifecycle event does to them.

A page of an active request is *locked* on the GPU; a page of a suspended one is *held*, on GPU or
host. A suspension moves nothing. Held pages migrate to the host later, when somebody else needs
GPU pages, oldest suspension first, as long as the host has room.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stallproof.compiled import compiled_in_place
from stallproof.lifecycle import Event, next_phase
from stallproof.requests import NOBODY, NOT_SUSPENDED, SUSPENDED, Column, Requests

GPU, HOST = 0, 1

ARRIVE, REFUSE, ADMIT, GROW, SCHEDULE = (
    int(Event.ARRIVE),
    int(Event.REFUSE),
    int(Event.ADMIT),
    int(Event.GROW),
    int(Event.SCHEDULE),
)
SUSPEND, MIGRATE, RESUME, RECOMPUTE_PAUSE = (
    int(Event.SUSPEND),
    int(Event.MIGRATE),
    int(Event.RESUME),
    int(Event.RECOMPUTE_PAUSE),
)
FINISH, CANCEL = int(Event.FINISH), int(Event.CANCEL)


class Tiers(NamedTuple):
    """Pages by tier. The arrays have shape (2,), indexed by :data:`GPU` and :data:`HOST`."""

    page_tokens: int  # tokens a page holds
    capacity: Column  # int64 pages of the tier
    free: Column  # int64 pages nobody has
    held: Column  # int64 pages of suspended requests


def new_tiers(gpu_pages: int, host_pages: int, page_tokens: int) -> Tiers:
    """Two empty tiers. ``host_pages`` of 0 means that there is no tier below the GPU."""
    capacity = np.array([gpu_pages, host_pages], np.int64)
    return Tiers(page_tokens, capacity, capacity.copy(), np.zeros(2, np.int64))


@compiled_in_place
def copy_tiers(source: Tiers, target: Tiers) -> None:
    """Copy the counts of ``source`` over ``target``, whose capacities are the same."""
    for tier in range(2):
        target.free[tier] = source.free[tier]
        target.held[tier] = source.held[tier]


@compiled_in_place
def pages_for(tokens: int, page_tokens: int) -> int:
    """Pages that ``tokens`` tokens of one request fill, the last one perhaps in part."""
    return (tokens + page_tokens - 1) // page_tokens


@compiled_in_place
def peak_pages(tokens: int, output_left: int, page_tokens: int) -> int:
    """The most pages a request will ever hold: the last token it generates is never computed."""
    return pages_for(tokens + output_left - 1, page_tokens)


@compiled_in_place
def has_lower_tier(tiers: Tiers) -> bool:
    """A tier below the GPU exists."""
    return tiers.capacity[HOST] > 0


@compiled_in_place
def available(requests: Requests, tiers: Tiers, r: int) -> int:
    """GPU pages request ``r`` could get without giving anybody up (``rules.md``, "Words")."""
    held_by_others = tiers.held[GPU]
    if requests.phase[r] == SUSPENDED:
        held_by_others -= requests.gpu_pages[r]
    return tiers.free[GPU] + min(held_by_others, tiers.free[HOST])


@compiled_in_place
def missing_pages(requests: Requests, tiers: Tiers, r: int, tokens: int) -> int:
    """GPU pages request ``r`` lacks to compute ``tokens`` more tokens; pages it has on the host count as lacking."""
    return pages_for(requests.computed[r] + tokens, tiers.page_tokens) - requests.gpu_pages[r]


@compiled_in_place
def oldest_suspension(requests: Requests, but: int) -> int:
    """The request that was suspended first of those that still hold a GPU page, ``but`` excepted; or NOBODY."""
    oldest = NOBODY
    for r in range(len(requests.phase)):
        if requests.phase[r] == SUSPENDED and requests.gpu_pages[r] > 0 and r != but:
            if oldest == NOBODY or requests.suspension[r] < requests.suspension[oldest]:
                oldest = r
    return oldest


@compiled_in_place
def _release_everything(requests: Requests, tiers: Tiers, r: int) -> None:
    if requests.phase[r] == SUSPENDED:
        tiers.held[GPU] -= requests.gpu_pages[r]
        tiers.held[HOST] -= requests.host_pages[r]
    tiers.free[GPU] += requests.gpu_pages[r]
    tiers.free[HOST] += requests.host_pages[r]
    requests.gpu_pages[r] = 0
    requests.host_pages[r] = 0
    requests.suspension[r] = NOT_SUSPENDED


@compiled_in_place
def apply(requests: Requests, tiers: Tiers, event: int, r: int, pages: int) -> None:
    """Carry out one lifecycle event on the counts. Nothing else changes a phase or moves a page.

    ``pages``: taken (admit, grow) or moved (migrate, resume); other events ignore it. Raises
    IllegalTransition before anything is changed. Whether a guard holds is the caller's business.
    """
    phase = next_phase(r, requests.phase[r], event)
    if event == ADMIT or event == GROW:
        requests.gpu_pages[r] += pages
        tiers.free[GPU] -= pages
    elif event == SUSPEND:
        newest = NOT_SUSPENDED
        for other in range(len(requests.phase)):
            newest = max(newest, requests.suspension[other])
        requests.suspension[r] = newest + 1
        tiers.held[GPU] += requests.gpu_pages[r]
    elif event == MIGRATE:
        requests.gpu_pages[r] -= pages
        requests.host_pages[r] += pages
        tiers.held[GPU] -= pages
        tiers.free[GPU] += pages
        tiers.held[HOST] += pages
        tiers.free[HOST] -= pages
    elif event == RESUME:
        tiers.held[GPU] -= requests.gpu_pages[r]
        tiers.held[HOST] -= requests.host_pages[r]
        tiers.free[GPU] -= pages
        tiers.free[HOST] += pages
        requests.gpu_pages[r] += pages
        requests.host_pages[r] -= pages
        requests.suspension[r] = NOT_SUSPENDED
    elif event == RECOMPUTE_PAUSE:
        _release_everything(requests, tiers, r)
        requests.computed[r] = 0
        requests.decoding[r] = 0
    elif event == FINISH or event == CANCEL:
        _release_everything(requests, tiers, r)
    requests.phase[r] = phase
