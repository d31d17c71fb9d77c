"""Benchmarks: each measures against a peer or a limit in the same run, several times, and shows the spread."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter
from typing import NamedTuple

import numpy as np

from stallproof.bounds import Bounds
from stallproof.checking import prepare
from stallproof.explorer import explore
from stallproof.lifecycle import Phase
from stallproof.limits import Limits
from stallproof.model import LifecycleModel
from stallproof.monitor import Monitor
from stallproof.observations import PassEnd, Pool, RequestId, Standing
from stallproof.policies import policy_named
from stallproof.requests import Column
from stallproof.scheduling import compute, schedule
from stallproof.tiers import GPU, pages_for
from stallproof.witness import Step, new_step

RUNS = 5
PASSES = 10
WATCHED_RUNS = 25
WATCHED_PASSES = 16
PAGE_TOKENS = 16
MANY = 1 << 20


class Row(NamedTuple):
    """One figure: seconds, a rate, a ratio, or a share (a ratio where less is better)."""

    what: str
    unit: str
    median: float
    best: float
    worst: float
    note: str

    def shown(self, value: float) -> str:
        """A value with its unit."""
        if self.unit == "seconds":
            return f"{value * 1e6:,.0f} us" if value < 1e-3 else f"{value:.3f} s"
        return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def _row(what: str, unit: str, values: list[float], note: str = "") -> Row:
    lower_is_better = unit in ("seconds", "share")
    best, worst = (min(values), max(values)) if lower_is_better else (max(values), min(values))
    return Row(what, unit, median(values), best, worst, note)


def _timed(run: Callable[[], object], runs: int = RUNS) -> list[float]:
    seconds = []
    for _ in range(runs):
        began = perf_counter()
        run()
        seconds.append(perf_counter() - began)
    return seconds


def explorer() -> list[Row]:
    """The explorer on the bounds named in the README, and on the same model in plain Python."""
    bounds = Bounds(live=4, gpu_pages=6, host_pages=2, max_prompt=4, max_output=4)
    policy = policy_named("resident-first")
    began = perf_counter()
    prepare(policy, bounds)
    first = perf_counter() - began
    rows = [_row("compile, or read the cache", "seconds", [first], "once a process")]
    for name, size in (("reduced arrivals", bounds), ("every output length", bounds._replace(every_output=True))):
        model = LifecycleModel(policy, size)
        found = explore(model)
        seconds = _timed(lambda model=model: explore(model))  # type: ignore[misc] # bound now, on purpose
        rows.append(
            _row(f"explore, {name}", "seconds", seconds, f"{found.states:,} states, {found.transitions:,} transitions")
        )
        rows.append(_row("  transitions a second", "rate", [found.transitions / s for s in seconds]))
    small = LifecycleModel(policy, Bounds())
    plain = _timed(lambda: plain_breadth_first(small))
    compiled = _timed(lambda: explore(small, threads=1))
    rows.append(
        _row(
            "plain-Python search / compiled, one thread",
            "ratio",
            [p / c for p, c in zip(plain, compiled, strict=True)],
            "the same compiled pass called from a Python loop, default bounds",
        )
    )
    return rows


def plain_breadth_first(model: LifecycleModel) -> int:
    """The peer: breadth first over the same moves with a Python set. Returns the number of states."""
    start = model.initial_rows()[0]
    seen, frontier = {start.tobytes()}, [start]
    while frontier:
        following = []
        for row in frontier:
            for target in model.successors(row[None, :]).row:
                key = target.tobytes()
                if key not in seen:
                    seen.add(key)
                    following.append(target.copy())
        frontier = following
    return len(seen)


def one_pass() -> list[Row]:
    """The pass in steady decode: every request is active and computes one token, none needs a new page."""
    rows = []
    policy = policy_named("resident-first")
    for n in (128, 1024):
        step = new_step(n, 8 * n, 0, 64, Limits(2048))
        table, tiers = step.after, step.tiers
        table.phase[:], table.decoding[:] = Phase.ACTIVE, 1
        table.tokens[:], table.computed[:], table.output_left[:] = 201, 200, 1 << 30
        table.gpu_pages[:] = pages_for(200, 64)
        tiers.free[GPU] -= int(table.gpu_pages.sum())

        def some_passes(step: Step = step) -> None:
            for _ in range(PASSES):
                schedule(step.after, step.tiers, policy.rules, step.limits, step.plan)
                compute(step.after, step.tiers, step.plan)

        def some_walks(column: Column = np.zeros(n, np.int64)) -> None:  # noqa: B008 # one column for this size
            for _ in range(PASSES):
                column += 1

        some_passes()
        table.computed[:], table.tokens[:] = 200, 201  # the warm-up used some of the last page
        seconds = [s / PASSES for s in _timed(some_passes)]
        table.computed[:], table.tokens[:] = 200, 201
        limit = [s / PASSES for s in _timed(some_walks)]
        rows.append(_row(f"pass, {n:,} requests in steady decode", "seconds", seconds))
        rows.append(
            _row(
                "  over adding 1 to a column of as many rows",
                "ratio",
                [pass_ / least for pass_, least in zip(seconds, limit, strict=True)],
                "the least that any pass over all requests must do",
            )
        )
    return rows


def watching() -> list[Row]:
    """The monitor in steady decode: every request is given a token, a page's length apart each needs a new page.

    The peer is what people write first: a sweep over all requests and a line of JSON a pass.
    """
    rows = []
    for live in (128, 1024):
        monitors = {f"{kind}, {live:,} live": _monitor_of(live, kind) for kind in ("full", "sample")}
        computed: dict[RequestId, int] = {f"r{number}": number % PAGE_TOKENS for number in range(live)}
        spent: dict[str, list[float]] = {kind: [] for kind in ("tracer", *monitors)}
        number = 1
        for _ in range(WATCHED_RUNS):
            passes = [_steady_pass(computed, number + k) for k in range(WATCHED_PASSES)]
            number += WATCHED_PASSES
            for kind, monitor in monitors.items():
                spent[kind] += _timed(partial(_observe, monitor, passes), 1)
            spent["tracer"] += _timed(partial(_trace, computed, passes), 1)
        tracer = [s / WATCHED_PASSES for s in spent.pop("tracer")]
        rows.append(_row(f"naive tracer, {live:,} live, a pass", "seconds", tracer, "a sweep and a line of JSON"))
        for kind, seconds in spent.items():
            rows.append(_row(f"monitor, {kind}, a pass", "seconds", [s / WATCHED_PASSES for s in seconds]))
            ratios = [s / WATCHED_PASSES / t for s, t in zip(seconds, tracer, strict=True)]
            rows.append(_row("  over the naive tracer", "share", ratios))
    return rows


def _monitor_of(live: int, checks: str) -> Monitor:
    standing = [
        Standing(f"r{number}", Phase.ACTIVE, 1, 0, PAGE_TOKENS, number % PAGE_TOKENS, 1 << 30) for number in range(live)
    ]
    return Monitor(Pool(MANY, 0, PAGE_TOKENS), checks=checks, standing=standing)


def _steady_pass(computed: dict[RequestId, int], number: int) -> PassEnd:
    """One more token each. ``computed``: before the first pass, when everybody has one page."""
    grown: dict[RequestId, int] = {}
    pages = 0
    for name, before in computed.items():
        held = pages_for(before + number, PAGE_TOKENS)
        pages += held
        if held > pages_for(before + number - 1, PAGE_TOKENS):
            grown[name] = held
    return PassEnd(number, dict.fromkeys(computed, 1), MANY - pages, 0, grown=grown)


def _observe(monitor: Monitor, passes: list[PassEnd]) -> None:
    for seen in passes:
        monitor.observe(seen)


def _trace(computed: dict[RequestId, int], passes: list[PassEnd]) -> int:
    written = 0
    for seen in passes:
        rows = [(name, before + seen.number, seen.scheduled.get(name, 0)) for name, before in computed.items()]
        written += len(json.dumps({"pass": seen.number, "requests": rows, "free": seen.free_gpu}))
    return written


BENCHMARKS: dict[str, Callable[[], list[Row]]] = {"explorer": explorer, "pass": one_pass, "monitor": watching}
