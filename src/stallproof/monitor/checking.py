"""The claims about one change and about the end of a pass, each a step of its own.

A check yields what it found: the claim's name, the requests and what was seen. It changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stallproof.lifecycle import Event, Phase
from stallproof.monitor.table import NEXT, Seen, Table
from stallproof.observations import Change, PassEnd, RequestId

GIVE_UPS = (Event.SUSPEND, Event.RECOMPUTE_PAUSE)
RETURNS = (Event.ADMIT, Event.RESUME)


class Found(NamedTuple):
    """A claim that was found false, and of whom. ``what``: what was seen, in words."""

    claim: str
    requests: tuple[RequestId, ...]
    what: str


@dataclass
class Pass:
    """What happened since the last pass ended."""

    changes: int = 0
    arrivals: int = 0
    suspended: set[RequestId] = field(default_factory=set)
    paused: set[RequestId] = field(default_factory=set)
    given_up: dict[RequestId, Event] = field(default_factory=dict)
    finished: set[RequestId] = field(default_factory=set)

    def take(self, change: Change) -> None:
        """Note a change."""
        self.changes += 1
        event, request = change.event, change.request
        if event is Event.SUSPEND:
            self.suspended.add(request)
        elif event is Event.RECOMPUTE_PAUSE:
            self.paused.add(request)
        elif event is Event.ARRIVE:
            self.arrivals += 1
        if event in GIVE_UPS:
            self.given_up[request] = event
        elif event in RETURNS:
            self.given_up.pop(request, None)
        elif event in (Event.FINISH, Event.CANCEL):
            self.finished.add(request)
            self.given_up.pop(request, None)


def before_a_change(change: Change, table: Table, this_pass: Pass, gone: dict[RequestId, None]) -> Iterator[Found]:
    """The claims about a change that ask how things stood before it."""
    event, request, pool = change.event, change.request, table.pool
    phase = table.phase_of(request)
    if (phase, event) not in NEXT:
        if event in (Event.FINISH, Event.CANCEL) and phase is Phase.NEW and request in gone:
            yield Found("terminal-releases-once", (request,), f"'{event.label}' again: it had finished")
        else:
            stood = "not live" if phase is Phase.NEW else phase.label
            yield Found("legal-transition", (request,), f"'{event.label}' of a request that is {stood}")
    seen = table.live.get(request)
    if event is Event.ARRIVE and None not in (change.most_tokens, pool.gpu_pages, pool.page_tokens):
        peak = -(-(change.most_tokens - 1) // pool.page_tokens)  # type: ignore[operator]
        if peak > pool.gpu_pages:  # type: ignore[operator]
            yield Found("infeasible-refused", (request,), f"it needs {peak} pages at its longest")
    if event is Event.SUSPEND and pool.host_pages == 0:
        yield Found("no-suspension-without-lower-tier", (request,), "suspended, and there is no host tier")
    if seen is not None and change.tokens is not None:
        known = table.known_tokens(request, seen)
        if known is not None and change.tokens < known:
            yield Found("tokens-preserved", (request,), f"{change.tokens} tokens are known, and were {known}")
    if event in GIVE_UPS:
        yield from _about_a_victim(change, table, this_pass)


def _about_a_victim(change: Change, table: Table, this_pass: Pass) -> Iterator[Found]:
    event, request, requester = change.event, change.request, change.requester
    if request in this_pass.paused or (event is Event.SUSPEND and request in this_pass.suspended):
        yield Found("victim-once-per-pass", (request,), f"'{event.label}' again in one pass")
    if requester is None or requester == request:
        return
    victim, asks = table.live.get(request), table.live.get(requester)
    if victim is None or asks is None:
        return
    if victim.arrival < asks.arrival:
        yield Found("victim-behind-requester", (request, requester), "the victim arrived before its requester")
    if event is Event.RECOMPUTE_PAUSE and not _makes_room(table, victim, asks):
        yield Found("victim-makes-room", (request, requester), "its pages leave its requester no more than before")


def _makes_room(table: Table, victim: Seen, asks: Seen) -> bool:
    """Giving up the victim's pages makes more of them available to the requester, or nobody can tell."""
    pool = table.pool
    if table.untold_gpu or table.untold_host or pool.gpu_pages is None or pool.host_pages is None:
        return True
    gpu, host = victim.gpu_pages or 0, victim.host_pages or 0
    held = table.held_gpu - ((asks.gpu_pages or 0) if asks.phase is Phase.SUSPENDED else 0)
    free_host = pool.host_pages - table.host_pages
    held_after = held - gpu if victim.phase is Phase.SUSPENDED else held
    return gpu + min(held_after, free_host + host) > min(held, free_host)


def after_a_change(change: Change, table: Table) -> Iterator[Found]:
    """The claims about a change that ask how things stand now."""
    event, request, pool = change.event, change.request, table.pool
    seen = table.live.get(request)
    if seen is None:
        left = (change.gpu_pages or 0) + (change.host_pages or 0)
        if left and event is not Event.REFUSE:
            yield Found("terminal-releases-once", (request,), f"it is gone and has {left} pages left")
        return
    gpu, host = seen.gpu_pages, seen.host_pages
    if seen.phase in (Phase.WAITING, Phase.RECOMPUTE_PAUSED) and (gpu or host):
        yield Found("phase-residency", (request,), f"{seen.phase.label} with {gpu or 0} GPU and {host or 0} host pages")
    if seen.phase is Phase.ACTIVE and host:
        yield Found("phase-residency", (request,), f"active with {host} pages on the host")
    computed = table.computed_of(request)
    if computed is None:
        return
    if computed and gpu == 0 and host == 0:
        yield Found("replay-from-zero", (request,), f"no pages, and {computed} tokens computed")
    elif seen.phase is Phase.ACTIVE and gpu and pool.page_tokens and gpu * pool.page_tokens < computed:
        yield Found("phase-residency", (request,), f"active, {computed} tokens computed, {gpu} GPU pages")


def before_growth(end: PassEnd, table: Table) -> Iterator[Found]:
    """Only active requests grow."""
    for request in (end.grown or {}).keys() - table.active:
        yield Found("legal-transition", (request,), f"'grow' of a request that is {_stands(table, request)}")


def at_the_end(end: PassEnd, table: Table, this_pass: Pass, overfull: Iterable[RequestId]) -> Iterator[Found]:
    """The claims about a pass. ``overfull``: those whose pages hold less than their computed tokens."""
    scheduled = end.scheduled.keys()
    if (wrong := scheduled & this_pass.given_up.keys()) or not scheduled <= table.active:
        for request in wrong:
            list_ = "suspended" if this_pass.given_up[request] is Event.SUSPEND else "recompute-paused"
            yield Found("lists-disjoint", (request,), f"scheduled and {list_} in one pass")
        for request in scheduled - table.active - this_pass.finished - wrong:
            yield Found("scheduled-has-pages", (request,), f"scheduled, and {_stands(table, request)}")
    for request in overfull:
        if request in scheduled:
            what = f"{table.computed_of(request)} tokens computed, {table.live[request].gpu_pages} GPU pages"
            yield Found("scheduled-has-pages", (request,), what)
    if end.lists is not None:
        yield from _on_the_lists(end.lists, table)
    yield from _conservation(end, table)


def _on_the_lists(lists: Mapping[Phase, Sequence[RequestId]], table: Table) -> Iterator[Found]:
    """Everybody is on one list, once, and it is that of the phase the changes led to."""
    active, waiting = lists.get(Phase.ACTIVE), lists.get(Phase.WAITING)
    if active is not None:
        listed = set(active)
        if len(listed) != len(active):
            twice = [request for request, times in Counter(active).items() if times > 1]
            yield Found("lists-disjoint", tuple(twice), "twice on the engine's list of active requests")
        if listed != table.active:
            for request in listed - table.active:
                what = f"on the engine's list of active requests, and {_is(table, request)}"
                yield Found("lists-disjoint", (request,), what)
            for request in table.active - listed:
                yield Found("lists-disjoint", (request,), "active, and not on the engine's list of active requests")
    if waiting is not None:
        for request, times in Counter(waiting).items():
            phase = table.phase_of(request)
            if phase not in (Phase.WAITING, Phase.RECOMPUTE_PAUSED):
                yield Found(
                    "lists-disjoint", (request,), f"on the engine's list of waiting requests, and {_is(table, request)}"
                )
            elif times > 1:
                yield Found("lists-disjoint", (request,), "twice on the engine's lists of waiting requests")


def _is(table: Table, request: RequestId) -> str:
    seen = table.live.get(request)
    if seen is None:
        return "not live"
    return seen.phase.label if seen.gpu_pages is None else f"{seen.phase.label} with {seen.gpu_pages} GPU pages"


def _stands(table: Table, request: RequestId) -> str:
    phase = table.phase_of(request)
    return "not live" if phase is Phase.NEW else phase.label


def _conservation(end: PassEnd, table: Table) -> Iterator[Found]:
    pool = table.pool
    for tier, size, used, untold, free in (
        ("GPU", pool.gpu_pages, table.gpu_pages, table.untold_gpu, end.free_gpu),
        ("host", pool.host_pages, table.host_pages, table.untold_host, end.free_host),
    ):
        if size is None or free is None or untold:
            continue
        fenced = size - free - used  # of copies, which are in flight
        if free < 0 or fenced < 0 or (fenced and not end.in_flight):
            requests = sorted(table.live, key=lambda r: table.live[r].arrival)
            yield Found(
                "page-conservation",
                tuple(requests),
                f"{tier}: {free} free and {used} of requests, where the tier has {size} pages",
            )
