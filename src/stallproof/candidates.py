"""Who may be given up for whom, and what that would bring. Pure questions; policies and properties ask them.

A *candidate* of a requester is behind it, has started, holds pages (active or suspended), is not
scheduled in this pass, and has no copy in flight (R10: its pages could not be had now).
``scheduled`` is the plan's column of that name.
"""

from __future__ import annotations

from stallproof.compiled import compiled_in_place
from stallproof.requests import ACTIVE, NOBODY, SUSPENDED, Column, Requests
from stallproof.tiers import GPU, HOST, Tiers


@compiled_in_place
def is_candidate(requests: Requests, scheduled: Column, requester: int, v: int) -> bool:
    """``v`` may legally be given up for ``requester``."""
    phase = requests.phase[v]
    if requests.copying[v] > 0:
        return False
    return v > requester and (phase == ACTIVE or phase == SUSPENDED) and requests.computed[v] > 0 and scheduled[v] == 0


@compiled_in_place
def newest_candidate(requests: Requests, scheduled: Column, requester: int, phase: int) -> int:
    """The newest candidate in ``phase``, or NOBODY."""
    for v in range(len(requests.phase) - 1, requester, -1):
        if requests.phase[v] == phase and is_candidate(requests, scheduled, requester, v):
            return v
    return NOBODY


@compiled_in_place
def pages_gained(requests: Requests, tiers: Tiers, requester: int, v: int) -> int:
    """Pages by which ``available(requester)`` rises if ``v`` releases every page it has.

    An active victim brings its GPU pages. A suspended one brings something only where the host is
    too full for all held pages to migrate: its GPU pages then become free, and so does room on the host.
    """
    if requests.phase[v] == ACTIVE:
        return requests.gpu_pages[v]
    held = tiers.held[GPU]
    if requests.phase[requester] == SUSPENDED:
        held -= requests.gpu_pages[requester]
    gpu, host = requests.gpu_pages[v], requests.host_pages[v]
    return gpu + min(held - gpu, tiers.free[HOST] + host) - min(held, tiers.free[HOST])


@compiled_in_place
def newest_helpful_candidate(requests: Requests, tiers: Tiers, scheduled: Column, requester: int) -> int:
    """The newest candidate whose loss makes room, an active one before any suspended one; or NOBODY."""
    for phase in (ACTIVE, SUSPENDED):
        for v in range(len(requests.phase) - 1, requester, -1):
            if requests.phase[v] == phase and is_candidate(requests, scheduled, requester, v):
                if pages_gained(requests, tiers, requester, v) > 0:
                    return v
    return NOBODY


@compiled_in_place
def available_without_candidates(requests: Requests, tiers: Tiers, scheduled: Column, requester: int) -> int:
    """GPU pages ``requester`` could get if every candidate released every page it has."""
    free_gpu, free_host = tiers.free[GPU] + tiers.fenced[GPU], tiers.free[HOST]
    held_gpu = tiers.held[GPU]
    if requests.phase[requester] == SUSPENDED:
        held_gpu -= requests.gpu_pages[requester]
    for v in range(requester + 1, len(requests.phase)):
        if is_candidate(requests, scheduled, requester, v):
            free_gpu += requests.gpu_pages[v]
            free_host += requests.host_pages[v]
            if requests.phase[v] == SUSPENDED:
                held_gpu -= requests.gpu_pages[v]
    return free_gpu + min(held_gpu, free_host)
