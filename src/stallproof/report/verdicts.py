"""The result of a check, for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stallproof.bounds import Bounds
from stallproof.checking import CheckResult, PropertyResult
from stallproof.claims import Kind, Verdict
from stallproof.plan import Rule
from stallproof.report.timeline import count, print_timeline
from stallproof.worst_cases import CHEAP

STYLES = {
    Verdict.HOLDS: "green",
    Verdict.VIOLATED: "bold red",
    Verdict.BOUND_REACHED: "yellow",
    Verdict.NOT_APPLICABLE: "dim",
}


def bounds_in_words(bounds: Bounds) -> str:
    """The bounds in one line."""
    host = count(bounds.host_pages, "host page") if bounds.host_pages else "no host tier"
    return (
        f"{count(bounds.live, 'live request')}, {count(bounds.gpu_pages, 'GPU page')}, {host}, "
        f"{count(bounds.page_tokens, 'token')} a page, "
        f"chunks of {bounds.chunk_tokens}, prompts to {bounds.max_prompt}, outputs to {bounds.max_output}"
        + ("" if bounds.cancel else ", no cancellation")
        + ("" if bounds.early_stop else ", no early stop")
        + (f", {count(bounds.lookahead, 'draft')} a decode" if bounds.lookahead else "")
        + (f", {count(bounds.state_pages, 'page')} of recurrent state" if bounds.state_pages else "")
        + (f", {bounds.priorities} priorities" if bounds.priorities > 1 else "")
        + (f", at most {count(bounds.pass_requests, 'request')} a pass" if bounds.pass_requests else "")
        + (f", at most {count(bounds.pass_tokens, 'token')} a pass" if bounds.pass_tokens else "")
        + (", copies take time" if bounds.copies else "")
    )


def outcome(result: PropertyResult) -> Text:
    """The verdict on one property in a word or two."""
    if result.kind is Kind.SOMETIMES and result.verdict is Verdict.HOLDS:
        return Text("happens", style="green")
    if result.kind is Kind.SOMETIMES and result.failed:
        words, style = "never happens", STYLES[result.verdict]
    else:
        words, style = result.verdict.value, STYLES[result.verdict]
    if result.failed and not result.claimed:
        return Text(f"{words} (not claimed)", style="yellow")
    return Text(words, style=style)


def print_check(
    result: CheckResult,
    console: Console,
    timelines: bool = True,
    certified: int = 0,
    notes: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Print the verdict, every property, the rules that never fired, and the shortest traces.

    ``certified``: how many of the traces the plain-Python checker has certified; ``notes``: what it had to say
    of rules from somebody's file, by property.
    """
    console.print(Text.assemble((result.policy.name, "bold"), f": {result.policy.summary}"))
    console.print(Text(bounds_in_words(result.bounds)))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("property")
    table.add_column("verdict", no_wrap=True)
    table.add_column("trace", justify="right")
    table.add_column("sentence", ratio=1, style="dim")
    for property_result in result.properties:
        if property_result.verdict is Verdict.NOT_APPLICABLE:
            continue
        length = property_result.trace_length
        table.add_row(
            property_result.name,
            outcome(property_result),
            "" if length is None else str(length),
            property_result.sentence,
        )
    console.print(table)
    left_out = [p.name for p in result.properties if p.verdict is Verdict.NOT_APPLICABLE]
    if left_out:
        console.print(Text(f"Not applicable within these bounds: {', '.join(left_out)}.", style="dim"))
    never = [rule for rule, times in result.coverage.items() if times == 0 and _can_fire(rule, result.bounds)]
    if never and not result.policy.decides_whole_passes:  # else the ladders are not asked
        console.print(Text(f"Rules that never fired: {', '.join(never)}.", style="yellow"))
    if result.worst_cases:
        console.print(Text(worst_case_line(result)))
    if timelines:
        for failures in _by_trace(result.findings):
            console.print()
            print_timeline([failure.trace for failure in failures if failure.trace is not None], console)
            print_notes((notes or {}).get(failures[0].name, ()), console)
        for failure in result.findings:
            if failure.trace is None:
                console.print(Text(never_happened(failure), style="yellow"))
        if certified:
            console.print(Text(f"Replayed and certified by the plain-Python checker: {count(certified, 'trace')}."))
        if result.findings:
            console.print()
    console.print(verdict_line(result))


def print_notes(notes: Sequence[str], console: Console) -> None:
    """What rules from somebody's file did wrong in the run above."""
    for note in notes:
        console.print(Text(note, style="yellow"))


def _can_fire(rule: str, bounds: Bounds) -> bool:
    """The bounds switch on what the rule is about."""
    if rule in (Rule.R10_COPIES_MAKE_ROOM.label, Rule.R10_LOADS.label):
        return bounds.copies and bounds.host_pages > 0
    if rule == Rule.R9_NEXT_PRIORITY_WAITS.label:
        return bounds.priorities > 1
    return rule != Rule.LIMIT_REACHED.label or bounds.pass_requests + bounds.pass_tokens > 0


def worst_case_line(result: CheckResult) -> str:
    """What is always computed of the worst cases, in one line."""
    drain, oldest = (result.worst_case[name] for name in CHEAP)
    drained = "some never end" if drain is None else f"{drain} passes"
    finished = "never, it can starve" if oldest is None else f"{oldest} passes"
    return (
        f"Worst case until all live requests are done, if nothing else happens: {drained}. "
        f"Until the oldest is done, whatever else happens: {finished}."
    )


def _by_trace(failures: Iterable[PropertyResult]) -> list[list[PropertyResult]]:
    """Failures with a trace, those with the same one together."""
    groups: dict[object, list[PropertyResult]] = {}
    for failure in failures:
        if failure.trace is not None:
            groups.setdefault((failure.trace.moves, failure.trace.loop_start), []).append(failure)
    return list(groups.values())


def never_happened(failure: PropertyResult) -> str:
    """What to do about a *sometimes* property that never happened."""
    return (
        f"{failure.name}: within these bounds it never happens: {failure.sentence} "
        "The other verdicts say nothing about it. "
        f"Tighten the bounds, or leave the claim out with --unclaimed {failure.name}."
    )


def verdict_line(result: CheckResult) -> Text:
    """The verdict in one line, with the size of what it is about."""
    size = (
        f"{result.states:,} states, {result.transitions:,} transitions, depth {result.depth}, "
        f"{result.seconds:.2f} s ({result.states / max(result.seconds, 1e-9):,.0f} states/s)"
    )
    meaning = {
        Verdict.HOLDS: "every claim is true of every run within the bounds",
        Verdict.VIOLATED: "failed: " + ", ".join(p.name for p in result.failures if p.claimed),
        Verdict.BOUND_REACHED: "the search was cut off; what it saw breaks no claim, the rest is unknown",
    }[result.verdict]
    return Text.assemble(
        f"{result.policy.name} ", (result.verdict.value, STYLES[result.verdict]), f": {meaning}. {size}."
    )
