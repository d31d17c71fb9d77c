"""The benchmarks come out with numbers; how large they are is nobody's promise."""

from __future__ import annotations

import math

import pytest

from stallproof import benchmarks
from stallproof.benchmarks import Row, one_pass, plain_breadth_first
from stallproof.bounds import Bounds
from stallproof.checking import check
from stallproof.model import LifecycleModel
from stallproof.policies import RESIDENT_FIRST


def test_one_pass_comes_out_with_finite_positive_numbers():
    rows = one_pass()
    assert [row.unit for row in rows] == ["seconds", "ratio"] * 2
    for row in rows:
        for value in (row.median, row.best, row.worst):
            assert math.isfinite(value)
            assert value > 0
        assert row.what
        assert row.shown(row.median)


def test_best_and_worst_lie_on_either_side_of_the_median():
    for row in one_pass():
        assert min(row.best, row.worst) <= row.median <= max(row.best, row.worst)
        assert (row.best <= row.worst) == (row.unit == "seconds")


def test_the_watched_passes_are_good_ones():
    """Else the benchmark would measure how violations are told."""
    computed = {f"r{number}": number % 16 for number in range(48)}
    for kind in ("full", "sample"):
        monitor = benchmarks._monitor_of(48, kind)
        benchmarks._observe(monitor, [benchmarks._steady_pass(computed, number) for number in range(1, 100)])
        assert (monitor.passes, monitor.faults, monitor.counts) == (99, 0, {})


def test_the_benchmark_of_the_monitor_sets_it_beside_a_tracer(monkeypatch):
    monkeypatch.setattr(benchmarks, "WATCHED_RUNS", 2)
    rows = benchmarks.watching()
    assert [row.unit for row in rows] == ["seconds", "seconds", "share", "seconds", "share"] * 2
    assert all(0 < row.best <= row.median <= row.worst < math.inf for row in rows)


def test_the_peer_of_the_explorer_finds_the_same_states():
    model = LifecycleModel(RESIDENT_FIRST, Bounds())
    assert plain_breadth_first(model) == check(threads=1).states


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (Row("", "seconds", 0, 0, 0, ""), [(0.0000125, "12 us"), (0.5, "0.500 s"), (12.0, "12.000 s")]),
        (Row("", "rate", 0, 0, 0, ""), [(2_300_000, "2,300,000"), (99.5, "99.50")]),
        (Row("", "ratio", 0, 0, 0, ""), [(1.5, "1.50"), (250, "250")]),
    ],
)
def test_a_figure_is_shown_with_its_unit(row, words):
    assert [row.shown(value) for value, _ in words] == [word for _, word in words]


def test_every_benchmark_of_the_command_line_is_there():
    assert set(benchmarks.BENCHMARKS) == {"explorer", "pass", "monitor"}
