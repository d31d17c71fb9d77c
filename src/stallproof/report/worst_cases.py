"""Worst cases, for people: a table, and the run that shows each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stallproof.report.timeline import count, name, print_run
from stallproof.worst_cases import WorstCase

UNBOUNDED = "unbounded"


def value(case: WorstCase | None) -> str:
    """``12``, ``3/2``, ``unbounded``; ``unknown`` if the search was cut off."""
    if case is None:
        return "unknown"
    return UNBOUNDED if case.value is None else str(case.value)


def print_worst_cases(cases: Sequence[WorstCase], console: Console) -> None:
    """Print all values, then each run once, under the names of all that it shows. ``cases``: not empty."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("worst case", no_wrap=True)
    table.add_column("value", justify="right")
    table.add_column("what is counted", style="dim", ratio=1)
    for case in cases:
        table.add_row(case.name, value(case), case.sentence)
    console.print(table)
    for group in by_run(cases):
        console.print()
        for case in group:
            console.print(Text.assemble((f"{case.name}: {value(case)}", "bold"), f", {where(case)}"))
        print_run(group[0].run, console)


def by_run(cases: Sequence[WorstCase]) -> list[list[WorstCase]]:
    """The cases, those with the same run together; one whose value is 0 has nothing to show."""
    groups: dict[object, list[WorstCase]] = {}
    for case in cases:
        if case.value != 0:
            groups.setdefault((case.moves, case.loop_start), []).append(case)
    return list(groups.values())


def where(case: WorstCase) -> str:
    """Whom the count is about, and from which step on."""
    who = f"for {name(case.request)} " if case.request else ""
    if case.loop_start is not None:
        return f"{who}each time round the loop"
    if case.name.endswith("of_one_request"):
        return f"{who}from its arrival on"
    return f"{who}after {count(case.counted_from, 'step')}"
