"""Two policies side by side, and the table of all policies: for a terminal, or as Markdown for a pull request."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stallproof.checking import CheckResult, PropertyResult
from stallproof.claims import Verdict
from stallproof.comparing import Comparison, Difference, Throughput
from stallproof.report.timeline import count, print_run
from stallproof.report.verdicts import bounds_in_words, outcome
from stallproof.report.worst_cases import value
from stallproof.traces import Run
from stallproof.worst_cases import SENTENCES

MARKDOWN_WIDTH = 10_000
"""Wide enough that no cell of a Markdown table is broken."""

TIMELINE_WIDTH = 110


class Page:
    """Where a report goes: headings, tables and runs, in the one form or the other."""

    def __init__(self, console: Console, markdown: bool) -> None:
        self.console, self.markdown = console, markdown

    def heading(self, text: str) -> None:
        """A heading."""
        if not self.markdown:
            self.console.print()
        self.console.print(Text(f"### {text}\n" if self.markdown else text, style="" if self.markdown else "bold"))

    def text(self, text: str) -> None:
        """A paragraph."""
        self.console.print(Text(text))
        if self.markdown:
            self.console.print()

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str | Text]], justify: str = "left") -> None:
        """A table; all columns but the first are set ``justify``."""
        table = Table(box=box.MARKDOWN if self.markdown else None, pad_edge=self.markdown, header_style="bold")
        for k, title in enumerate(header):
            table.add_column(title, justify="right" if k and justify == "right" else "left", no_wrap=self.markdown)
        for row in rows:
            table.add_row(*row)
        if self.markdown:
            self.console.print(Text(f"{rendered(table, MARKDOWN_WIDTH)}\n"))
        else:
            self.console.print(table)

    def run(self, run: Run, first: int, last: int | None = None) -> None:
        """The steps of a run after ``first``, up to and with ``last``."""
        if not self.markdown:
            print_run(run, self.console, first, last)
            return
        text = io.StringIO()
        print_run(run, Console(file=text, width=TIMELINE_WIDTH, highlight=False), first, last)
        self.console.print(Text(f"```\n{trimmed(text.getvalue())}\n```\n"))


def rendered(table: Table, width: int) -> str:
    """A table as plain text."""
    text = io.StringIO()
    Console(file=text, width=width, highlight=False).print(table)
    return trimmed(text.getvalue())


def trimmed(text: str) -> str:
    """Without blanks at the ends of lines, and without empty lines around."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")


def page_for(console: Console, markdown: bool) -> Page:
    """A page on ``console``, or as Markdown on the same file."""
    if not markdown:
        return Page(console, False)
    return Page(Console(file=console.file, width=MARKDOWN_WIDTH, highlight=False, no_color=True), True)


def print_comparison(comparison: Comparison, page: Page) -> None:
    """Print verdicts, claims, worst cases, sizes, the first difference and, if there was one, the workload."""
    one, other = comparison.sides
    names = (one.policy.name, other.policy.name)
    page.heading(f"{names[0]} and {names[1]}")
    page.text(f"{bounds_in_words(one.bounds)}.")
    page.table(("", *names), [("verdict", *(side.verdict.value for side in comparison.sides))])
    page.heading("Claims")
    rows = [
        (a.name, judged(a), judged(b))
        for a, b in zip(one.properties, other.properties, strict=True)
        if not (unremarkable(a) and unremarkable(b))
    ]
    if rows:
        page.table(("property", *names), rows)
    same = len(one.properties) - len(rows)
    if same:
        page.text(f"{'The other ' if rows else 'All '}{same} hold in both, or do not apply.")
    page.heading("Worst cases")
    page.table(("worst case", *names, "what is counted"), worst_case_rows(comparison))
    page.heading("States")
    page.table(("", *names), size_rows(comparison), justify="right")
    page.heading("First difference")
    if comparison.difference is None:
        seen = "every state" if one.verdict is not Verdict.BOUND_REACHED else "every state that was seen"
        page.text(f"None: in {seen} both plans are the same.")
    else:
        print_difference(comparison.difference, page)
    if comparison.throughput:
        page.heading(comparison.workload)
        page.table(("", *names), throughput_rows(comparison.throughput), justify="right")


def judged(result: PropertyResult) -> Text:
    """The verdict on a property, and the steps of its shortest counterexample."""
    text = outcome(result)
    return text if result.trace_length is None else Text.assemble(text, f", {count(result.trace_length, 'step')}")


def unremarkable(result: PropertyResult) -> bool:
    """It holds, happens or does not apply."""
    return result.verdict in (Verdict.HOLDS, Verdict.NOT_APPLICABLE)


def worst_case_rows(comparison: Comparison) -> list[Sequence[str]]:
    """A row a worst case."""
    found = [{case.name: case for case in side.worst_cases} for side in comparison.sides]
    return [(name, *(value(cases.get(name)) for cases in found), sentence) for name, sentence in SENTENCES.items()]


def size_rows(comparison: Comparison) -> list[Sequence[str]]:
    """How many states each reaches, and how many of them the other one does not."""
    sides = comparison.sides
    return [
        ("states", *(f"{side.states:,}" for side in sides)),
        ("of these in both", *(f"{comparison.shared:,}" for _ in sides)),
        ("of these in one alone", *(f"{side.states - comparison.shared:,}" for side in sides)),
        ("transitions", *(f"{side.transitions:,}" for side in sides)),
        ("depth", *(str(side.depth) for side in sides)),
    ]


def print_difference(difference: Difference, page: Page) -> None:
    """The steps both share, then how each goes on by itself."""
    page.text(f"Both go the same way for {count(difference.after, 'step')}:")
    page.run(difference.one, 0, difference.after)
    for run in (difference.one, difference.other):
        follows = what_follows(run, difference.after)
        page.text(f"{run.policy.name}, if nothing more arrives, stops or is cancelled: {follows}:")
        page.run(run, difference.after)


def what_follows(run: Run, after: int) -> str:
    """How a run of passes ends, and what it cost from step ``after`` on."""
    moments = run.moments[after:]
    events = [operation.event.label for moment in moments for operation in moment.operations]
    lost = sum(
        operation.lost_tokens
        for moment in moments
        for operation in moment.operations
        if operation.event.label == "recompute-pause"
    )
    costs = [
        count(events.count("suspend"), "suspension"),
        count(events.count("recompute-pause"), "recompute-pause"),
        f"{count(lost, 'token')} computed again",
    ]
    if run.loop_start is not None:
        return "it never ends: somebody stays for ever"
    return f"everybody is done after {count(len(moments), 'pass')}, {', '.join(costs)}"


def throughput_rows(outcomes: Sequence[Throughput]) -> list[Sequence[str]]:
    """A row a measure; a side that stalled says so and no more."""
    rows: list[Sequence[str]] = []
    if any(each.stall for each in outcomes):
        rows.append(("stalled", *(each.stall or "no" for each in outcomes)))
    for label, field in (
        ("requests finished", "finished"),
        ("refused", "refused"),
        ("passes", "passes"),
        ("suspensions", "suspensions"),
        ("recompute-pauses", "recompute_pauses"),
        ("tokens computed again", "recomputed_tokens"),
        ("pages moved", "pages_moved"),
        ("passes from arrival to finish, mean", "mean_passes"),
        ("the same, 99th percentile", "p99_passes"),
    ):
        rows.append((label, *(shown(getattr(each, field)) for each in outcomes)))
    return rows


def shown(number: float | None) -> str:
    """A number with commas; fractions to one digit."""
    if number is None:
        return "-"
    return f"{number:,}" if isinstance(number, int) else f"{number:,.1f}"


def print_policies(results: Sequence[tuple[str, CheckResult]], page: Page) -> None:
    """The policies: what each is, and at the reference bounds its verdict, what fails and the worst cases.

    ``results``: as :func:`stallproof.comparing.survey` gives them.
    """
    policies = {result.policy.name: result.policy for _, result in results}
    page.table(("policy", "what it is"), [(policy.name, policy.summary) for policy in policies.values()])
    for name, bounds in {name: result.bounds for name, result in results}.items():
        page.heading(f"{name}: {bounds_in_words(bounds)}")
        separator = ", " if page.markdown else "\n"
        page.table(POLICY_HEADER, [policy_row(result, separator) for at, result in results if at == name])
    page.text(POLICY_LEGEND)


POLICY_HEADER = ("policy", "verdict", "fails", "drain", "oldest", "preempted", "recomputed")

POLICY_LEGEND = (
    "fails: claims and the steps of the shortest counterexample, in brackets what is not claimed; the rest holds. "
    "drain: passes until nobody is left, if nothing more happens. oldest: passes until the oldest finishes. "
    "preempted: times that one request is. recomputed: tokens, per token generated. All at worst, whatever arrives."
)


def policy_row(result: CheckResult, separator: str) -> tuple[str | Text, ...]:
    """One policy in one row; every claim not named holds."""
    cases = {case.name: case for case in result.worst_cases}
    fails = []
    for failure in result.findings:
        length = "" if failure.trace_length is None else f" {failure.trace_length}"
        fails.append(f"{failure.name}{length}" if failure.claimed else f"({failure.name}{length})")
    return (
        result.policy.name,
        result.verdict.value,
        separator.join(fails),
        value(cases.get("passes_to_drain")),
        value(cases.get("passes_until_oldest_finishes")),
        value(cases.get("preemptions_of_one_request")),
        value(cases.get("recomputed_per_token")),
    )
