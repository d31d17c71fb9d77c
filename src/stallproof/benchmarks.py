"""Benchmarks: each measures against a peer or a limit in the same run, several times, and shows the spread."""

from __future__ import annotations

from collections.abc import Callable
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
from stallproof.policies import policy_named
from stallproof.requests import Column
from stallproof.scheduling import compute, schedule
from stallproof.tiers import GPU, pages_for
from stallproof.witness import Step, new_step

RUNS = 5
PASSES = 10


class Row(NamedTuple):
    """One figure: seconds, or a ratio."""

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
    lower_is_better = unit == "seconds"
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


BENCHMARKS: dict[str, Callable[[], list[Row]]] = {"explorer": explorer, "pass": one_pass}
