"""What happened between two looks at a scheduler that tells no events: the shortest way that the lifecycle allows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from stallproof.lifecycle import TRANSITIONS, Event, Phase
from stallproof.observations import Change, RequestId, Standing

NOT_OF_A_PASS = (Event.REFUSE, Event.CANCEL)
"""They happen to a scheduler; who looks knows of them."""

GIVES_BACK = (Event.FINISH, Event.RECOMPUTE_PAUSE, Event.SUSPEND, Event.MIGRATE)


def changes_between(
    before: Mapping[RequestId, Standing], after: Mapping[RequestId, Standing], scheduled: Mapping[RequestId, int]
) -> list[Change]:
    """The net changes of one pass, those that give pages back first. ``scheduled``: the tokens it computed.

    A sweep sees net changes only: who was given up for whom, and in what order, stays untold. Where no way leads from
    one phase to the other, the event that leads to the second is told all the same, so that a monitor finds it illegal.
    """
    new = [Standing(request, Phase.NEW) for request in after if request not in before]
    of_each = [
        list(_of_one(was, after.get(was.request), scheduled.get(was.request, 0))) for was in [*before.values(), *new]
    ]
    of_each.sort(key=lambda changes: bool(changes) and changes[-1].event not in GIVES_BACK)
    return [change for changes in of_each for change in changes]


def _of_one(was: Standing, now: Standing | None, tokens: int) -> Iterator[Change]:
    request, phase = was.request, was.phase
    if now is None:
        if phase is not Phase.ACTIVE and tokens:
            yield from (_on_the_way(event, was) for event in _way(phase, Phase.ACTIVE))
        yield Change(Event.FINISH, request, 0, 0)
        return
    computed = None if now.computed is None else now.computed - tokens
    if phase is now.phase:
        events = _within(was, now, computed)
    else:
        events = _way(phase, now.phase)
    for event in events[:-1]:
        yield _on_the_way(event, was)
    if not events:
        return
    if events[-1] is Event.SUSPEND:
        gpu = now.gpu_pages if None in (now.gpu_pages, now.host_pages) else now.gpu_pages + now.host_pages  # type: ignore[operator]
        yield Change(Event.SUSPEND, request, gpu, 0, now.tokens, computed)
        if now.host_pages:
            yield Change(Event.MIGRATE, request, now.gpu_pages, now.host_pages, now.tokens, computed)
    else:
        yield Change(events[-1], request, now.gpu_pages, now.host_pages, now.tokens, computed)


def _on_the_way(event: Event, was: Standing) -> Change:
    """One that others follow in the same pass: what is known of its pages is what the event itself says."""
    if event is Event.RECOMPUTE_PAUSE:
        return Change(event, was.request, 0, 0)
    if event is Event.RESUME and was.gpu_pages is not None and was.host_pages is not None:
        return Change(event, was.request, was.gpu_pages + was.host_pages, 0)
    return Change(event, was.request)


def _within(was: Standing, now: Standing, computed: int | None) -> list[Event]:
    """The events that leave the phase as it is, or lead back to it."""
    if was.phase is Phase.ACTIVE:
        if None not in (was.computed, computed) and computed < was.computed:  # type: ignore[operator]
            return [Event.RECOMPUTE_PAUSE, Event.ADMIT]
        fewer = None not in (was.tokens, now.tokens) and now.tokens < was.tokens  # type: ignore[operator]
        moved = was.gpu_pages != now.gpu_pages or was.host_pages != now.host_pages
        return [Event.GROW] if moved or fewer else []  # fewer tokens: told, so that somebody finds it
    moved = (was.gpu_pages, was.host_pages) != (now.gpu_pages, now.host_pages)
    return [Event.MIGRATE] if moved and was.phase is Phase.SUSPENDED else []


def _way(source: Phase, target: Phase) -> list[Event]:
    """The fewest events from one phase to the other; where there are none, the one that leads to the second."""
    ways: deque[tuple[Phase, list[Event]]] = deque([(source, [])])
    seen = {source}
    while ways:
        phase, events = ways.popleft()
        for row in TRANSITIONS:
            if phase in row.sources and row.event not in NOT_OF_A_PASS and row.target not in seen:
                if row.target is target:
                    return [*events, row.event]
                seen.add(row.target)
                ways.append((row.target, [*events, row.event]))
    return [next(row.event for row in TRANSITIONS if row.target is target)]
