"""A trace as a timeline: one line a step, only what changed, and who has which pages afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stallproof.lifecycle import Event, Phase
from stallproof.model import Kind as MoveKind
from stallproof.traces import Moment, Operation, RequestState, Run, Trace

WIDEST_BAR = 16
"""Pages of a tier shown one by one; a larger tier is shown in proportion."""


def name(number: int) -> str:
    """What a request is called: R1 arrived first."""
    return f"R{number}"


def count(n: int, noun: str) -> str:
    """``1 page``, ``2 pages``, ``2 passes``."""
    return f"{n} {noun}{'' if n == 1 else 'es' if noun.endswith('s') else 's'}"


def pages_bar(requests: tuple[RequestState, ...], field: str, capacity: int, fenced: int = 0) -> str:
    """Who has the pages of a tier: a digit a page, the request's number; ~ is a fenced page, a dot a free one."""
    owners = "".join(name(r.number)[-1] * getattr(r, field) for r in requests) + "~" * fenced
    if capacity <= WIDEST_BAR:
        return owners.ljust(capacity, ".")
    filled = round(len(owners) / capacity * WIDEST_BAR)
    return f"{'#' * filled}{'.' * (WIDEST_BAR - filled)} {len(owners)}/{capacity}"


def fenced_pages(moment: Moment) -> tuple[int, int]:
    """GPU and host pages that nobody has and a copy still reads or writes."""
    gpu, host = moment.abandoned
    for r in moment.requests:
        if r.phase is Phase.SUSPENDED:
            gpu += r.copying
        else:
            host += r.copying
    return gpu, host


def describe(moment: Moment) -> str:
    """One step in words."""
    move = moment.move
    if move.kind is MoveKind.ARRIVE:
        priority = f", priority {move.priority}" if move.priority else ""  # 0 goes without saying
        return f"{name(moment.number)} arrives: prompt {move.prompt}, output up to {move.output}{priority}"
    if move.kind is MoveKind.REFUSE:
        return f"a request with prompt {move.prompt} and output {move.output} is refused: it can never fit"
    if move.kind is MoveKind.STOP:
        return f"{name(moment.number)} stops early and finishes"
    if move.kind is MoveKind.CANCEL:
        return f"{name(moment.number)} is cancelled"
    if move.kind is MoveKind.SETTLE:
        return f"the copies of {name(moment.number)} are done"
    if move.kind is MoveKind.SETTLE_ABANDONED:
        return "the copies of requests that have gone are done"
    if moment.failed:
        return "pass: an allocation fails, and the policy raises: the server stops"
    drafts = " (some drafts are right)" if move.drafts else ""
    return f"pass{drafts}: " + ("; ".join(_operations(moment.operations)) or "nothing happens")


def _operations(operations: tuple[Operation, ...]) -> Iterator[str]:
    taken: dict[int, int] = {}
    for o in operations:
        who, whom = name(o.request), name(o.requester)
        if o.event in (Event.ADMIT, Event.GROW):
            taken[o.request] = o.amount  # told together with the tokens it is for
        elif o.event is Event.SCHEDULE:
            pages = f" (+{count(taken[o.request], 'page')})" if taken.get(o.request) else ""
            yield f"{who} computes {count(o.amount, 'token')}{pages}"
        elif o.event is Event.SUSPEND:
            yield f"{who} is suspended for {whom}" if o.requester else f"{who} suspends itself"
        elif o.event is Event.MIGRATE:
            yield f"{count(o.amount, 'page')} of {who} to the host"
        elif o.event is Event.RESUME:
            yield f"{who} resumes" + (f" ({count(o.amount, 'page')} back from the host)" if o.amount else "")
        elif o.event is Event.RECOMPUTE_PAUSE:
            paused = f"is recompute-paused for {whom}" if o.requester else "recompute-pauses itself"
            yield f"{who} {paused} and loses {count(o.lost_tokens, 'computed token')}"
        elif o.event is Event.FINISH:
            yield f"{who} finishes"


def state_words(r: RequestState) -> str:
    """A request's state in a few words."""
    stage = "decode" if r.decoding else "prefill"
    return f"{name(r.number)} {r.phase.label}, {stage}, {r.computed} of {count(r.tokens, 'token')} computed"


def print_timeline(traces: Sequence[Trace], console: Console) -> None:
    """Print one run and every sentence it makes false, and for a lasso where the loop starts.

    ``traces``: at least one; all have the same moves and loop, each its own claim.
    """
    trace = traces[0]
    names = ", ".join(each.claim.name for each in traces)
    where = f"in the loop from step {trace.loop_start + 1}" if trace.loop_start is not None else "in the last step"
    console.print(Text(f"{names}: {count(len(trace.moments), 'step')}", style="bold red"))
    for each in traces:
        console.print(Text(f"False {where}: {each.claim.sentence}"))
    print_run(trace, console)


def print_run(run: Run, console: Console, after: int = 0, last: int | None = None) -> None:
    """Print the steps of a run after step ``after``, up to and with step ``last``, as they are numbered in it.

    Of a lasso, if its end is shown, also the state it comes back to.
    """
    last = len(run.moments) if last is None else last
    bounds = run.bounds
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("step", justify="right")
    table.add_column("what happens", ratio=1)
    table.add_column("GPU pages", no_wrap=True)
    if bounds.host_pages:
        table.add_column("host pages", no_wrap=True)
    for k, moment in enumerate(run.moments):
        if not after <= k < last:
            continue
        if k == run.loop_start:
            table.add_row("", Text("-- from here on the steps repeat for ever --", style="yellow"))
        fenced = fenced_pages(moment)
        cells = [str(k + 1), describe(moment), pages_bar(moment.requests, "gpu_pages", bounds.gpu_pages, fenced[0])]
        if bounds.host_pages:
            cells.append(pages_bar(moment.requests, "host_pages", bounds.host_pages, fenced[1]))
        table.add_row(*cells)
    console.print(table)
    if run.loop_start is not None and last == len(run.moments):
        for state in run.moments[-1].requests:
            console.print(Text(f"      {state_words(state)}", style="dim"))
