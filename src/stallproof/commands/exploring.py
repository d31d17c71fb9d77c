"""The verbs that explore: check, diagram, policies, compare."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from stallproof.commands.shared import bounds_of, chosen_policy, progress_bar, require_in_range
from stallproof.errors import EXIT_HOLDS, PoolTooSmall, UsageError
from stallproof.report.consoles import console_for, require_writable, write_json


def check(options: argparse.Namespace) -> int:
    """Explore a policy exhaustively within bounds."""
    require_writable(options.json, "--json")
    require_writable(options.trace, "--trace")
    if options.trace == "-":
        raise UsageError("a trace goes to a file", "--trace", "Give a file's name.")
    if options.trace is not None and options.json is not None and Path(options.trace) == Path(options.json):
        raise UsageError("both would be written to one file", "--json, --trace", "Give two names.")
    bounds = bounds_of(options)
    for option, value in (("--max-states", options.max_states), ("--threads", options.threads)):
        if value is not None and value < 1:
            raise UsageError(f"{value} is out of range", option, "Give at least 1.")

    from stallproof import checking, traces
    from stallproof.certifier import certify_all
    from stallproof.recounting import recount_all
    from stallproof.report.verdicts import print_check
    from stallproof.report.worst_cases import print_worst_cases

    policy = chosen_policy(options.policy, options.unclaimed)
    with progress_bar("compiling, the first time takes half a minute", None):
        checking.prepare(policy, bounds)
    with progress_bar("exploring", None) as update:

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
    with progress_bar("certifying", None):
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


def diagram(options: argparse.Namespace) -> int:
    """Print the lifecycle's diagram, made from the transition table; or the graph of the states reached."""
    from stallproof.report import diagrams

    if not options.reachable and options.graphml is None:
        sys.stdout.write(diagrams.FORMATS[options.format]())
        return EXIT_HOLDS
    require_writable(options.graphml, "--graphml")
    policy, bounds = chosen_policy(options.policy, []), bounds_of(options)

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

    with progress_bar("checking", len(POLICIES) * len(comparing.REFERENCE)) as update:
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
    bounds = bounds_of(options)
    require_in_range(
        options,
        ("--max-states", 1),
        ("--threads", 1),
        ("--limit", 1),
        ("--trace-gpu-pages", 1),
        ("--trace-host-pages", 0),
    )

    from stallproof import checking, comparing
    from stallproof.recounting import recount_all
    from stallproof.report.comparisons import page_for, print_comparison
    from stallproof.workloads import open_workload

    one, other = (chosen_policy(name, []) for name in (options.one, options.other))
    workload = open_workload(options.trace, options.limit) if options.trace is not None else None
    with progress_bar("compiling, the first time takes half a minute", None):
        for policy in (one, other):
            checking.prepare(policy, bounds)
    with progress_bar("exploring", None) as update:

        def show(at: Any) -> None:
            update(None, f"{at.states:,} states, depth {at.depth}")

        comparison = comparing.compare(
            one, other, bounds, max_states=options.max_states, threads=options.threads, progress=show
        )
    if workload is not None:
        with progress_bar("driving", None):
            pools = {"gpu_pages": options.trace_gpu_pages, "host_pages": options.trace_host_pages}
            try:
                comparison = comparing.on_workload(comparison, workload, **pools)
            except PoolTooSmall as error:
                raise PoolTooSmall(error.what, "--trace-gpu-pages", error.remedy) from None
    with progress_bar("certifying", None):
        recount_all([case.as_json() for side in comparison.sides for case in side.worst_cases])
    page = page_for(console_for("-" if options.format == "json" else options.json), options.format == "markdown")
    print_comparison(comparison, page)
    if options.format == "json":
        write_json(comparison.as_json(), "-")
    write_json(comparison.as_json(), None if options.format == "json" and options.json == "-" else options.json)
    return comparison.exit_code
