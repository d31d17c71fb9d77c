"""What each verb of the command line does. Each imports what it needs when it runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from stallproof.bounds import MOST_SIZE, Bounds
from stallproof.errors import EXIT_HOLDS, EXIT_VIOLATED, PoolTooSmall, UsageError
from stallproof.report.consoles import console_for, progress_console, require_writable, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stallproof.policies import Policy


def check(options: argparse.Namespace) -> int:
    """Explore a policy exhaustively within bounds."""
    require_writable(options.json, "--json")
    require_writable(options.trace, "--trace")
    if options.trace == "-":
        raise UsageError("a trace goes to a file", "--trace", "Give a file's name.")
    if options.trace is not None and options.json is not None and Path(options.trace) == Path(options.json):
        raise UsageError("both would be written to one file", "--json, --trace", "Give two names.")
    bounds = _bounds(options)
    for option, value in (("--max-states", options.max_states), ("--threads", options.threads)):
        if value is not None and value < 1:
            raise UsageError(f"{value} is out of range", option, "Give at least 1.")

    from stallproof import checking, traces
    from stallproof.certifier import certify_all
    from stallproof.recounting import recount_all
    from stallproof.report.verdicts import print_check
    from stallproof.report.worst_cases import print_worst_cases

    policy = _policy(options.policy, options.unclaimed)
    with _bar("compiling, the first time takes half a minute", None):
        checking.prepare(policy, bounds)
    with _bar("exploring", None) as update:

        def show(at: Any) -> None:
            rate = at.states / max(at.seconds, 1e-9)
            update(None, f"{at.states:,} states, {rate:,.0f}/s, depth {at.depth}, queue {at.queue:,}")

        result = checking.check(
            policy,
            bounds,
            max_states=options.max_states,
            threads=options.threads,
            progress=show,
            all_worst_cases=options.worst_cases,
        )
    counterexamples = [failure.trace for failure in result.failures if failure.trace is not None]
    with _bar("certifying", None):
        certificates = certify_all([traces.as_json(trace) for trace in counterexamples])
        notes = {certificate.property: certificate.notes for certificate in certificates if certificate.notes}
        shown = [case.as_json() for case in result.worst_cases] if options.worst_cases else []
        recount_all(shown)
    console = console_for(options.json)
    if shown:
        print_worst_cases(result.worst_cases, console)
        console.print()
    print_check(result, console, certified=len(certificates), notes=notes)
    if options.trace is not None:
        failed = next(iter(counterexamples), None)
        if failed is None:
            print("nothing failed with a trace, so no trace was written", file=sys.stderr)
        else:
            traces.save(failed, Path(options.trace))
            print(f"trace of {failed.claim.name} written to {options.trace}", file=sys.stderr)
    extra: dict[str, Any] = {"certified": len(certificates)} | ({"notes": notes} if notes else {})
    extra |= {"worst_case_runs": shown} if shown else {}
    write_json(result.as_json() | extra, options.json)
    return result.exit_code


def _bounds(options: argparse.Namespace) -> Bounds:
    return Bounds(
        live=options.live,
        gpu_pages=options.gpu_pages,
        host_pages=options.host_pages,
        page_tokens=options.page_tokens,
        chunk_tokens=options.chunk_tokens,
        max_prompt=options.max_prompt,
        max_output=options.max_output,
        cancel=not options.no_cancel,
        early_stop=not options.no_early_stop,
        every_output=options.every_output,
        lookahead=options.lookahead,
        state_pages=options.state_pages,
        priorities=options.priorities,
        pass_requests=options.pass_requests,
        pass_tokens=options.pass_tokens,
        copies=options.copies,
    ).checked()


def _policy(name: str, unclaimed: list[str]) -> Policy:
    from stallproof.policies import policy_named
    from stallproof.properties import PROPERTIES

    policy = policy_named(name)
    known = [claim.name for claim in PROPERTIES]
    for claim in unclaimed:
        if claim not in known:
            raise UsageError(f"there is no property '{claim}'", "--unclaimed", f"Choose from: {', '.join(known)}.")
    return replace(policy, unclaimed=policy.unclaimed | frozenset(unclaimed))


def drive(options: argparse.Namespace) -> int:
    """Drive the page manager over a workload."""
    require_writable(options.json, "--json")
    for option, value, least in (
        ("--gpu-pages", options.gpu_pages, 1),
        ("--host-pages", options.host_pages, 0),
        ("--page-tokens", options.page_tokens, 1),
        ("--chunk-tokens", options.chunk_tokens, 1),
        ("--limit", options.limit, 1),
    ):
        if value is not None and not least <= value <= MOST_SIZE:
            raise UsageError(f"{value} is out of range", option, f"Give a number from {least} to {MOST_SIZE}.")
    if not 0 < options.pass_milliseconds < float("inf"):
        raise UsageError(f"{options.pass_milliseconds} is out of range", "--pass-milliseconds", "Give more than 0.")

    from stallproof import driving
    from stallproof.policies import policy_named
    from stallproof.report.drives import print_drive
    from stallproof.workloads import open_workload

    policy = policy_named(options.policy)
    workload = open_workload(options.workload, options.limit)
    sizes = {"page_tokens": options.page_tokens, "chunk_tokens": options.chunk_tokens}
    pace = {"burst": options.arrivals == "burst", "pass_seconds": options.pass_milliseconds / 1000}
    gpu_pages, host_pages = options.gpu_pages, options.host_pages
    if gpu_pages is None:
        with _bar("measuring the peak demand", None):
            gpu_pages, _ = driving.default_pools(workload, **sizes, **pace)
    if host_pages is None:
        host_pages = gpu_pages // 2

    from stallproof.pages import PageManager

    pages = PageManager(gpu_pages, host_pages, options.page_tokens, device=options.device)
    with _bar("driving", len(workload)) as update:

        def show(at: driving.Progress) -> None:
            update(
                at.finished + at.refused,
                f"{at.finished} of {at.requests} finished, {at.live} live, pass {at.passes:,}, "
                f"{at.gpu_used} of {gpu_pages} GPU pages",
            )

        result = driving.drive(
            workload,
            policy=policy,
            gpu_pages=gpu_pages,
            host_pages=host_pages,
            checks=options.checks,
            pages=pages,
            progress=show,
            **sizes,
            **pace,
        )
    print_drive(result, console_for(options.json))
    write_json(result.as_json(), options.json)
    return result.exit_code


def explain(options: argparse.Namespace) -> int:
    """Replay a saved trace from the state without requests, and show it."""
    require_writable(options.json, "--json")
    from stallproof import traces
    from stallproof.certifier import certify_all
    from stallproof.policies.loading import names_a_file
    from stallproof.report.timeline import print_timeline
    from stallproof.report.verdicts import bounds_in_words, print_notes

    trace = traces.load(Path(options.file))
    console = console_for(options.json)
    console.print(Text.assemble((trace.policy.name, "bold"), f": {trace.policy.summary}"))
    console.print(Text(f"{bounds_in_words(trace.bounds)}. Replayed: every step is as recorded."))
    print_timeline([trace], console)
    if names_a_file(trace.policy.name):
        print_notes(certify_all([traces.as_json(trace)])[0].notes, console)
    write_json(traces.as_json(trace), options.json)
    return EXIT_VIOLATED


def diagram(options: argparse.Namespace) -> int:
    """Print the lifecycle's diagram, made from the transition table; or the graph of the states reached."""
    from stallproof.report import diagrams

    if not options.reachable and options.graphml is None:
        sys.stdout.write(diagrams.FORMATS[options.format]())
        return EXIT_HOLDS
    require_writable(options.graphml, "--graphml")
    policy, bounds = _policy(options.policy, []), _bounds(options)

    from stallproof.report import reachable

    if options.graphml is not None:
        reachable.write_graphml(policy, bounds, Path(options.graphml))
        return EXIT_HOLDS
    picture = reachable.abstract_graph(policy, bounds)
    text = reachable.mermaid(picture) if options.format == "mermaid" else reachable.dot(picture)
    sys.stdout.write(diagrams.svg(text) if options.format == "svg" else text)
    return EXIT_HOLDS


def policies(options: argparse.Namespace) -> int:
    """Judge every policy at the reference bounds."""
    require_writable(options.json, "--json")
    from stallproof import comparing
    from stallproof.policies import POLICIES
    from stallproof.report.comparisons import page_for, print_policies

    with _bar("checking", len(POLICIES) * len(comparing.REFERENCE)) as update:
        results = []
        for name, result in comparing.survey(POLICIES.values()):
            results.append((name, result))
            update(len(results), f"{result.policy.name}, {name}")
    print_policies(results, page_for(console_for(options.json), options.format == "markdown"))
    write_json(comparing.survey_as_json(results), options.json)
    return EXIT_HOLDS


def compare(options: argparse.Namespace) -> int:
    """Two policies side by side, within bounds and on a workload."""
    require_writable(options.json, "--json")
    bounds = _bounds(options)
    for option, value, least in (
        ("--max-states", options.max_states, 1),
        ("--threads", options.threads, 1),
        ("--limit", options.limit, 1),
        ("--trace-gpu-pages", options.trace_gpu_pages, 1),
        ("--trace-host-pages", options.trace_host_pages, 0),
    ):
        if value is not None and not least <= value <= MOST_SIZE:
            raise UsageError(f"{value} is out of range", option, f"Give a number from {least} to {MOST_SIZE}.")

    from stallproof import checking, comparing
    from stallproof.recounting import recount_all
    from stallproof.report.comparisons import page_for, print_comparison
    from stallproof.workloads import open_workload

    one, other = (_policy(name, []) for name in (options.one, options.other))
    workload = open_workload(options.trace, options.limit) if options.trace is not None else None
    with _bar("compiling, the first time takes half a minute", None):
        for policy in (one, other):
            checking.prepare(policy, bounds)
    with _bar("exploring", None) as update:

        def show(at: Any) -> None:
            update(None, f"{at.states:,} states, depth {at.depth}")

        comparison = comparing.compare(
            one, other, bounds, max_states=options.max_states, threads=options.threads, progress=show
        )
    if workload is not None:
        with _bar("driving", None):
            pools = {"gpu_pages": options.trace_gpu_pages, "host_pages": options.trace_host_pages}
            try:
                comparison = comparing.on_workload(comparison, workload, **pools)
            except PoolTooSmall as error:
                raise PoolTooSmall(error.what, "--trace-gpu-pages", error.remedy) from None
    with _bar("certifying", None):
        recount_all([case.as_json() for side in comparison.sides for case in side.worst_cases])
    page = page_for(console_for("-" if options.format == "json" else options.json), options.format == "markdown")
    print_comparison(comparison, page)
    if options.format == "json":
        write_json(comparison.as_json(), "-")
    write_json(comparison.as_json(), None if options.format == "json" and options.json == "-" else options.json)
    return comparison.exit_code


def bench(options: argparse.Namespace) -> int:
    """Measure the explorer or the pass against a peer in the same run."""
    from stallproof import benchmarks

    require_writable(options.json, "--json")
    rows = benchmarks.BENCHMARKS[options.what]()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("what", "median", "best", "worst", "note"):
        table.add_column(column, justify="left" if column in ("what", "note") else "right")
    for row in rows:
        table.add_row(
            row.what, row.shown(row.median), row.shown(row.best), row.shown(row.worst), Text(row.note, style="dim")
        )
    console_for(options.json).print(table)
    write_json([row._asdict() for row in rows], options.json)
    return EXIT_HOLDS


@contextmanager
def _bar(what: str, total: int | None) -> Iterator[Callable[[int | None, str], None]]:
    """Progress on standard error, refreshed a few times a second; nothing if that is no terminal."""
    console = progress_console()
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *([BarColumn()] if total else []),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with progress:
        task = progress.add_task(what, total=total, detail="")

        def update(done: int | None, detail: str) -> None:
            progress.update(task, completed=done, detail=detail)

        yield update
