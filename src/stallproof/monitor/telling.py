"""What a monitor says: passes as a timeline, and who waits for whose pages in a stall."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stallproof.lifecycle import Event
from stallproof.monitor.table import Table
from stallproof.observations import Change, Observation, PassEnd, RequestId

MOST_NAMED = 6


def some(words: Sequence[str]) -> str:
    """The first of them, and how many more."""
    rest = len(words) - MOST_NAMED
    return ", ".join(words[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def named(requests: Iterable[RequestId]) -> str:
    """Requests in a sentence."""
    words = [str(request) for request in requests]
    return ("requests " if len(words) > 1 else "request ") + some(words) if words else "no request"


def change_in_words(change: Change) -> str:
    """One change, short."""
    pages = [
        f"{count} {name}"
        for count, name in ((change.gpu_pages, "GPU"), (change.host_pages, "host"))
        if count is not None
    ]
    words = f"{change.event.label} {change.request}"
    if change.requester is not None and change.requester != change.request:
        words += f" for {change.requester}"
    return f"{words} ({', '.join(pages)})" if pages else words


def timeline(passes: Iterable[Sequence[Observation]]) -> list[str]:
    """A line for each pass: what changed, what was scheduled, what is free."""
    lines = []
    for observations in passes:
        changes = [change_in_words(seen) for seen in observations if isinstance(seen, Change)]
        end = observations[-1] if observations and isinstance(observations[-1], PassEnd) else None
        if end is not None and end.grown:
            changes += [change_in_words(Change(Event.GROW, request, pages)) for request, pages in end.grown.items()]
        words = [some(changes)] if changes else []
        if end is not None:
            words.append("scheduled " + (some([f"{r} ({n})" for r, n in end.scheduled.items()]) or "nobody"))
            free = [(end.free_gpu, "GPU"), (end.free_host, "host")]
            told = [f"{count} {name}" for count, name in free if count is not None]
            words += ["free " + ", ".join(told)] if told else []
        where = f"pass {end.number}" if end is not None else "then"
        lines.append(f"{where}: " + "; ".join(words))
    return lines


def stall_report(end: PassEnd, table: Table) -> list[str]:
    """Who waits for how many pages, who has them, and what to do."""
    ordered = sorted(table.live.items(), key=lambda item: item[1].arrival)
    lines = []
    for request, seen in ordered[:MOST_NAMED]:
        lines.append(f"  request {request} ({seen.phase.label}) waits{_lacking(table, request)}")
    if len(ordered) > MOST_NAMED:
        lines.append(f"  and {len(ordered) - MOST_NAMED} more requests wait")
    told = [(end.free_gpu, "GPU"), (end.free_host, "host")]
    if free := [f"{count} {name} pages" for count, name in told if count is not None]:
        lines.append("  free: " + ", ".join(free))
    holders = sorted(ordered, key=lambda item: -((item[1].gpu_pages or 0) + (item[1].host_pages or 0)))
    for request, seen in holders[:MOST_NAMED]:
        if seen.gpu_pages or seen.host_pages:
            pages = f"{seen.gpu_pages or 0} GPU and {seen.host_pages or 0} host pages"
            lines.append(f"  request {request} ({seen.phase.label}) has {pages}")
    size = table.pool.gpu_pages
    now = f" (now {size})" if size is not None else ""
    lines.append(f"  remedy: more GPU pages{now}, fewer requests at once, or cancel one that holds pages.")
    return lines


def _lacking(table: Table, request: RequestId) -> str:
    """How many GPU pages it lacks to hold all its known tokens, where that can be told."""
    seen = table.live[request]
    known = table.known_tokens(request, seen)
    if known is None or table.pool.page_tokens is None or seen.gpu_pages is None:
        return ""
    known += known == table.computed_of(request)  # then the last pass has added one, which is not told yet
    lacking = -(-known // table.pool.page_tokens) - seen.gpu_pages
    pages = "page" if lacking <= 1 else "pages"
    return f" for {max(lacking, 1)} GPU {pages}, its {known} tokens at once"
