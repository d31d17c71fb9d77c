"""The result of a drive, for people."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stallproof.claims import Checks
from stallproof.driving import DriveResult

MOST_SHOWN = 5


def print_drive(result: DriveResult, console: Console) -> None:
    """Print what happened, what was checked, and what was wrong."""
    engine, counts = result.engine, result.engine.counts
    host = f"{engine.host_pages} host pages" if engine.host_pages else "no host tier"
    console.print(
        Text(
            f"{result.workload.name}: {len(result.workload)} requests over {engine.gpu_pages} GPU pages and {host}, "
            f"{engine.page_tokens} tokens a page, chunks of {engine.chunk_tokens}"
        )
    )
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    checked = "" if Checks(engine.checks) is Checks.FULL else f"checks: {Checks(engine.checks).value}"
    for label, value, note in (
        ("finished", counts.finished, f"{len(result.refused)} refused, {result.workload.skipped} rows skipped"),
        ("tokens generated", counts.tokens, ""),
        ("passes", counts.passes, f"{result.seconds:.1f} s"),
        ("suspensions", counts.suspends, f"{counts.resumes} resumed"),
        ("recompute-pauses", counts.recompute_pauses, f"{counts.recomputed_tokens:,} tokens computed again"),
        ("useless victims", counts.useless_victims, "recompute-pauses that made no room"),
        ("pages to the host", counts.pages_offloaded, f"{counts.pages_onboarded:,} back"),
        ("tokens verified", counts.content_checks, f"{counts.content_errors:,} wrong"),
        ("violations", len(engine.violations), checked),
    ):
        table.add_row(label, f"{value:,}", note)
    console.print(table)
    for reason, times in Counter(result.refused.values()).most_common(MOST_SHOWN):
        console.print(Text(f"{times} refused: {reason}", style="yellow"))
    reasons = Counter(result.refused.values())
    if len(reasons) > MOST_SHOWN:
        rest = len(result.refused) - sum(times for _, times in reasons.most_common(MOST_SHOWN))
        console.print(Text(f"and {rest} refused for {len(reasons) - MOST_SHOWN} other peaks", style="yellow"))
    for violation in engine.violations[:MOST_SHOWN]:
        console.print(Text(str(violation), style="bold red"))
    for error in engine.content_errors[:MOST_SHOWN]:
        console.print(Text(f"content error, {error}", style="bold red"))
