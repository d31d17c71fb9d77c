"""What a replay of a recording found, for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stallproof.monitor.sentences import CHECKED
from stallproof.replaying import Replay

MOST_SHOWN = 3


def print_replay(replay: Replay, name: str, console: Console) -> None:
    """Print what the recording holds, what is wrong with its lines, and what was checked and found."""
    recording, monitor = replay.recording, replay.monitor
    pool, policy = recording.header.pool, recording.header.policy
    sizes = [(pool.gpu_pages, "GPU pages"), (pool.host_pages, "host pages"), (pool.page_tokens, "tokens a page")]
    told = ", ".join(f"{size} {what}" for size, what in sizes if size is not None) or "sizes not told"
    console.print(Text.assemble((name, "bold"), f": {policy or 'a scheduler that is not named'}, {told}"))
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    checked = len(CHECKED.keys() - monitor.unchecked.keys())
    last = "the last line has no end and is left out" if recording.truncated else ""
    first_bad = "; ".join(f"line {line}: {reason}" for line, reason in recording.unreadable[:MOST_SHOWN])
    disorder = ", ".join(str(line) for line in recording.out_of_order[:MOST_SHOWN])
    violated = ", ".join(f"{claim} {times}" for claim, times in monitor.counts.items())
    for label, count, note in (
        ("observations", len(recording.observations), last),
        ("passes", monitor.passes, f"{monitor.live} requests live at the end"),
        ("lines not readable", len(recording.unreadable), first_bad),
        ("observations missing", recording.missing, ""),
        ("out of order, left out", len(recording.out_of_order), f"lines {disorder}" if disorder else ""),
        ("violations", sum(monitor.counts.values()), violated or f"of {checked} claims checked"),
        ("passes repeated", replay.compared, replay.not_compared),
    ):
        table.add_row(label, f"{count:,}", Text(note))
    console.print(table)
    for violation in monitor.violations[:MOST_SHOWN]:
        console.print(Text(violation.report, style="bold red"))
    more = sum(monitor.counts.values()) - len(monitor.violations[:MOST_SHOWN])
    if more:
        console.print(Text(f"and {more:,} more violations", style="red"))
    if monitor.faults:
        console.print(Text(f"the monitor itself failed {monitor.faults} times: {monitor.fault}", style="yellow"))
    _print_divergence(replay, console)
    reasons: dict[str, list[str]] = {}
    for claim, reason in monitor.unchecked.items():
        reasons.setdefault(reason, []).append(claim)
    for reason, claims in reasons.items():
        console.print(Text(f"not checked, {reason}: {', '.join(claims)}", style="dim"))


def _print_divergence(replay: Replay, console: Console) -> None:
    divergence = replay.divergence
    if divergence is None:
        return
    console.print(Text(f"pass {divergence.pass_number} is not what {replay.recording.header.policy} does:", "bold red"))
    console.print(Text(f"  recorded: {divergence.recorded}"))
    console.print(Text(f"  the pass: {divergence.own}"))
    if divergence.guard:
        console.print(Text(f"  {divergence.guard}"))
