"""The verbs that run something or show what ran: drive, explain, replay, bench."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path

from rich.table import Table
from rich.text import Text

from stallproof.commands.shared import progress_bar, require_in_range
from stallproof.errors import EXIT_HOLDS, EXIT_VIOLATED, UsageError
from stallproof.report.consoles import console_for, require_writable, write_json


def drive(options: argparse.Namespace) -> int:
    """Drive the page manager over a workload."""
    require_writable(options.json, "--json")
    require_writable(options.record, "--record")
    require_in_range(
        options,
        ("--gpu-pages", 1),
        ("--host-pages", 0),
        ("--page-tokens", 1),
        ("--chunk-tokens", 1),
        ("--limit", 1),
    )
    if not 0 < options.pass_milliseconds < float("inf"):
        raise UsageError(f"{options.pass_milliseconds} is out of range", "--pass-milliseconds", "Give more than 0.")

    from stallproof import driving
    from stallproof.observations import Pool
    from stallproof.policies import policy_named
    from stallproof.recording import Header, Recorder
    from stallproof.report.drives import print_drive
    from stallproof.workloads import open_workload

    policy = policy_named(options.policy)
    workload = open_workload(options.workload, options.limit)
    sizes = {"page_tokens": options.page_tokens, "chunk_tokens": options.chunk_tokens}
    pace = {"burst": options.arrivals == "burst", "pass_seconds": options.pass_milliseconds / 1000}
    gpu_pages, host_pages = options.gpu_pages, options.host_pages
    if gpu_pages is None:
        with progress_bar("measuring the peak demand", None):
            gpu_pages, _ = driving.default_pools(workload, **sizes, **pace)
    if host_pages is None:
        host_pages = gpu_pages // 2

    from stallproof.pages import PageManager

    pages = PageManager(gpu_pages, host_pages, options.page_tokens, device=options.device)
    with ExitStack() as stack:
        observer = None
        if options.record is not None:
            pool = Pool(gpu_pages, host_pages, options.page_tokens)
            header = Header(pool, policy.name, options.chunk_tokens)
            observer = stack.enter_context(Recorder(options.record, header)).write
        update = stack.enter_context(progress_bar("driving", len(workload)))

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
            observer=observer,
            **sizes,
            **pace,
        )
    print_drive(result, console_for(options.json))
    write_json(result.as_json(), options.json)
    return result.exit_code


def explain(options: argparse.Namespace) -> int:
    """Replay a saved trace from the state without requests, and show it; or a recording."""
    require_writable(options.json, "--json")
    from stallproof.recording import is_recording

    if is_recording(options.file):
        return _replay(options)
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


def replay(options: argparse.Namespace) -> int:
    """Check a recording."""
    require_writable(options.json, "--json")
    return _replay(options)


def _replay(options: argparse.Namespace) -> int:
    from stallproof import replaying
    from stallproof.recording import read_recording
    from stallproof.report.recordings import print_replay

    recording = read_recording(options.file)
    with progress_bar("replaying", None):
        found = replaying.replay(recording)
    print_replay(found, options.file, console_for(options.json))
    write_json(found.as_json(), options.json)
    return found.exit_code


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
