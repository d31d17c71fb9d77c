"""Page counts of the two tiers, and what each lifecycle event does to them.

A page of an active request is *locked* on the GPU; a page of a suspended one is *held*, on GPU or
host. A suspension moves nothing. Held pages migrate to the host later, when somebody else needs
GPU pages, oldest suspension first, as long as the host has room.

Where copies take time, the page that a copy leaves is *fenced*: nobody has it, and it is not free
until the copy is done. So is a page that a copy still fills for a request that has gone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stallproof.compiled import compiled_in_place
from stallproof.lifecycle import Event
from stallproof.lookup import next_phase
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
    state_pages: int  # pages of recurrent state that a request holds beside those of its tokens
    copies_take_time: bool  # else a page that a copy leaves is free at once, as where streams order copies
    capacity: Column  # int64 pages of the tier
    free: Column  # int64 pages nobody has
    held: Column  # int64 pages of suspended requests
    fenced: Column  # int64 pages that nobody has and a copy in flight reads or writes


def new_tiers(
    gpu_pages: int, host_pages: int, page_tokens: int, copies_take_time: bool = False, state_pages: int = 0
) -> Tiers:
    """Two empty tiers. ``host_pages`` of 0 means that there is no tier below the GPU."""
    capacity = np.array([gpu_pages, host_pages], np.int64)
    none = np.zeros(2, np.int64)
    return Tiers(page_tokens, state_pages, copies_take_time, capacity, capacity.copy(), none, none.copy())


@compiled_in_place
def copy_tiers(source: Tiers, target: Tiers) -> None:
    """Copy the counts of ``source`` over ``target``, whose capacities are the same."""
    for tier in range(2):
        target.free[tier] = source.free[tier]
        target.held[tier] = source.held[tier]
        target.fenced[tier] = source.fenced[tier]


@compiled_in_place
def pages_for(tokens: int, page_tokens: int, state_pages: int = 0) -> int:
    """Pages that ``tokens`` tokens of one request fill, the last one perhaps in part, and those of its state."""
    if tokens == 0:
        return 0
    return (tokens + page_tokens - 1) // page_tokens + state_pages


@compiled_in_place
def pages_to_hold(tiers: Tiers, tokens: int) -> int:
    """Pages that a request with ``tokens`` computed tokens holds, those of its recurrent state among them."""
    return pages_for(tokens, tiers.page_tokens, tiers.state_pages)


@compiled_in_place
def peak_pages(tokens: int, output_left: int, page_tokens: int, lookahead: int = 0, state_pages: int = 0) -> int:
    """The most pages a request will ever hold: the last token it generates is never computed.

    With ``lookahead`` its last decode still asks for that many drafts, though they lead nowhere.
    """
    return pages_for(tokens + output_left - 1 + lookahead, page_tokens, state_pages)


@compiled_in_place
def peak_to_hold(tiers: Tiers, tokens: int, output_left: int, lookahead: int) -> int:
    """As :func:`peak_pages`, in these tiers."""
    return peak_pages(tokens, output_left, tiers.page_tokens, lookahead, tiers.state_pages)


@compiled_in_place
def has_lower_tier(tiers: Tiers) -> bool:
    """A tier below the GPU exists."""
    return tiers.capacity[HOST] > 0


@compiled_in_place
def available(requests: Requests, tiers: Tiers, r: int) -> int:
    """GPU pages request ``r`` could get without giving anybody up (``rules.md``, "Words"), fenced ones among them."""
    held_by_others = tiers.held[GPU]
    if requests.phase[r] == SUSPENDED:
        held_by_others -= requests.gpu_pages[r]
    return tiers.free[GPU] + tiers.fenced[GPU] + min(held_by_others, tiers.free[HOST])


@compiled_in_place
def missing_pages(requests: Requests, tiers: Tiers, r: int, tokens: int) -> int:
    """GPU pages request ``r`` lacks to compute ``tokens`` more tokens; those it has on the host it lacks, every one."""
    lacking = pages_to_hold(tiers, requests.computed[r] + tokens) - requests.gpu_pages[r]
    return max(lacking, requests.host_pages[r])


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
def pages_being_filled(requests: Requests, r: int) -> tuple[int, int]:
    """GPU and host pages of ``r`` that a copy in flight still fills; as many fenced pages are being read."""
    if requests.phase[r] == SUSPENDED:
        return 0, requests.copying[r]
    return requests.copying[r], 0


@compiled_in_place
def copies_in_flight(tiers: Tiers) -> bool:
    """Some copy between the tiers is not done."""
    return tiers.fenced[GPU] + tiers.fenced[HOST] > 0


@compiled_in_place
def settle(requests: Requests, tiers: Tiers, r: int) -> None:
    """The copies of ``r`` are done: the pages they left are free."""
    filled_on_gpu, filled_on_host = pages_being_filled(requests, r)
    tiers.fenced[GPU] -= filled_on_host
    tiers.free[GPU] += filled_on_host
    tiers.fenced[HOST] -= filled_on_gpu
    tiers.free[HOST] += filled_on_gpu
    requests.copying[r] = 0


@compiled_in_place
def abandoned(requests: Requests, tiers: Tiers, tier: int) -> int:
    """Fenced pages of ``tier`` whose copy belongs to nobody any more."""
    pages = tiers.fenced[tier]
    for r in range(len(requests.phase)):
        if requests.copying[r] > 0 and (requests.phase[r] == SUSPENDED) == (tier == GPU):
            pages -= requests.copying[r]
    return pages


@compiled_in_place
def settle_abandoned(requests: Requests, tiers: Tiers) -> None:
    """The copies of requests that have gone are done."""
    for tier in range(2):
        pages = abandoned(requests, tiers, tier)
        tiers.fenced[tier] -= pages
        tiers.free[tier] += pages


@compiled_in_place
def _release_everything(requests: Requests, tiers: Tiers, r: int) -> None:
    if requests.phase[r] == SUSPENDED:
        tiers.held[GPU] -= requests.gpu_pages[r]
        tiers.held[HOST] -= requests.host_pages[r]
    filled_on_gpu, filled_on_host = pages_being_filled(requests, r)
    tiers.free[GPU] += requests.gpu_pages[r] - filled_on_gpu
    tiers.free[HOST] += requests.host_pages[r] - filled_on_host
    tiers.fenced[GPU] += filled_on_gpu
    tiers.fenced[HOST] += filled_on_host
    requests.copying[r] = 0
    requests.gpu_pages[r] = 0
    requests.host_pages[r] = 0
    requests.suspension[r] = NOT_SUSPENDED


@compiled_in_place
def _leave(requests: Requests, tiers: Tiers, tier: int, r: int, pages: int) -> None:
    if tiers.copies_take_time:
        tiers.fenced[tier] += pages
        requests.copying[r] += pages
    else:
        tiers.free[tier] += pages


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
        tiers.held[HOST] += pages
        tiers.free[HOST] -= pages
        _leave(requests, tiers, GPU, r, pages)
    elif event == RESUME:
        tiers.held[GPU] -= requests.gpu_pages[r]
        tiers.held[HOST] -= requests.host_pages[r]
        tiers.free[GPU] -= pages
        _leave(requests, tiers, HOST, r, pages)
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
