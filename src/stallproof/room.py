"""Pages for one request: making room on the GPU, coming back from the host, taking what its next tokens need.

The steps that every pass is made of, whatever its order: the ladders of :mod:`stallproof.scheduling` and the
whole passes of policies that have their own.
"""

from __future__ import annotations

from stallproof.compiled import compiled_in_place
from stallproof.limits import UNLIMITED, Limits, tokens_wanted
from stallproof.plan import REQUESTS, SELF, TOKENS, Plan, perform
from stallproof.requests import ACTIVE, NOBODY, RECOMPUTE_PAUSED, WAITING, Requests
from stallproof.tiers import (
    ADMIT,
    GPU,
    GROW,
    MIGRATE,
    RECOMPUTE_PAUSE,
    RESUME,
    SCHEDULE,
    Tiers,
    available,
    missing_pages,
    oldest_suspension,
)

LACKS_PAGES, FITS, COPIES_MAKE_ROOM, LOADS = 0, 1, 2, 3
"""How an attempt to schedule a request can end. LOADS: its own pages are on their way between the tiers."""


@compiled_in_place
def make_room(requests: Requests, tiers: Tiers, plan: Plan, r: int, pages: int) -> int:
    """Free ``pages`` GPU pages for ``r`` by migrating held pages, oldest suspension first; or move nothing at all.

    Returns FITS, LACKS_PAGES, or COPIES_MAKE_ROOM if the pages are there once copies in flight are done.
    """
    if pages > available(requests, tiers, r):
        return LACKS_PAGES
    while tiers.free[GPU] + tiers.fenced[GPU] < pages:
        holder = oldest_suspension(requests, r)
        moved = min(requests.gpu_pages[holder], pages - tiers.free[GPU] - tiers.fenced[GPU])
        perform(requests, tiers, plan, MIGRATE, holder, moved, r)
    return FITS if tiers.free[GPU] >= pages else COPIES_MAKE_ROOM


@compiled_in_place
def come_back(requests: Requests, tiers: Tiers, plan: Plan, r: int) -> int:
    """Resume suspended ``r``: all its pages back on the GPU, or nothing. Returns how it ended."""
    outcome = make_room(requests, tiers, plan, r, requests.host_pages[r])
    if outcome == FITS:
        perform(requests, tiers, plan, RESUME, r, requests.host_pages[r], SELF)
    return outcome


@compiled_in_place
def serve(requests: Requests, tiers: Tiers, plan: Plan, r: int, tokens: int) -> int:
    """Take the pages of ``tokens`` more tokens of ``r``, which is not suspended, and schedule it; or nothing.

    Returns how it ended.
    """
    pages = missing_pages(requests, tiers, r, tokens)
    outcome = make_room(requests, tiers, plan, r, pages)
    if outcome == FITS:
        if waits(requests, r):
            perform(requests, tiers, plan, ADMIT, r, pages, SELF)
        elif pages > 0:
            perform(requests, tiers, plan, GROW, r, pages, SELF)
    if requests.copying[r] > 0:
        return LOADS
    if outcome == FITS:
        perform(requests, tiers, plan, SCHEDULE, r, tokens, SELF)
    return outcome


# ---- what whole passes ask ------------------------------------------------------------------------------


@compiled_in_place
def waits(requests: Requests, r: int) -> bool:
    """Holds no pages and wants in: it is waiting, or recompute-paused."""
    return requests.phase[r] == WAITING or requests.phase[r] == RECOMPUTE_PAUSED


@compiled_in_place
def decodes(requests: Requests, r: int) -> bool:
    """Is active and past its prefill."""
    return requests.phase[r] == ACTIVE and requests.decoding[r] == 1


@compiled_in_place
def next_tokens(requests: Requests, plan: Plan, r: int, chunk_tokens: int, lookahead: int) -> int:
    """Tokens that ``r`` would compute next within what is left of the pass; 0 if the pass has no room for them."""
    limits = Limits(chunk_tokens, lookahead, UNLIMITED, UNLIMITED)
    tokens = tokens_wanted(requests, limits, r, plan.left[TOKENS])
    if plan.left[REQUESTS] == 0 or plan.left[TOKENS] < tokens:
        return 0
    return tokens


@compiled_in_place
def serve_decodes(requests: Requests, tiers: Tiers, plan: Plan, chunk_tokens: int, lookahead: int) -> bool:
    """Serve every decode, in order; false at the first for which the pass's limits leave no room."""
    for r in range(len(requests.phase)):
        if decodes(requests, r):
            tokens = next_tokens(requests, plan, r, chunk_tokens, lookahead)
            if tokens == 0:
                return False
            serve(requests, tiers, plan, r, tokens)
    return True


@compiled_in_place
def newest_active(requests: Requests) -> int:
    """The last active row none of whose pages is on its way; or NOBODY."""
    for r in range(len(requests.phase) - 1, -1, -1):
        if requests.phase[r] == ACTIVE and requests.copying[r] == 0:
            return r
    return NOBODY


@compiled_in_place
def pause_for(requests: Requests, tiers: Tiers, plan: Plan, victim: int, requester: int) -> None:
    """Recompute-pause ``victim`` for ``requester``; for itself if that is the victim, or NOBODY."""
    itself = victim == requester or requester == NOBODY
    perform(requests, tiers, plan, RECOMPUTE_PAUSE, victim, 0, SELF if itself else requester)


@compiled_in_place
def pages_to_decode(requests: Requests, tiers: Tiers, tokens: int) -> int:
    """GPU pages that all active decodes together lack to compute ``tokens`` tokens each."""
    pages = 0
    for r in range(len(requests.phase)):
        if decodes(requests, r):
            pages += missing_pages(requests, tiers, r, tokens)
    return pages


@compiled_in_place
def oldest_lacking(requests: Requests, tiers: Tiers, tokens: int, but: int) -> int:
    """The oldest active decode, ``but`` excepted, that lacks a page to compute ``tokens`` tokens; or NOBODY."""
    for r in range(len(requests.phase)):
        if decodes(requests, r) and r != but and missing_pages(requests, tiers, r, tokens) > 0:
            return r
    return NOBODY
