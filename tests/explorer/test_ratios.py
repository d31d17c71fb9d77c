"""The greatest ratio round a cycle, against all simple cycles that networkx lists."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stallproof.explorer import explore, greatest_ratio

from .models import TableModel

SMALL = st.integers(0, 3)
KEPT = st.sampled_from([True, True, False])
GRAPHS = st.integers(1, 5).flatmap(
    lambda size: st.lists(
        st.tuples(st.integers(0, size - 1), st.integers(0, size - 1), SMALL, SMALL, KEPT),
        max_size=10,
    )
)


def greatest_of(edges):
    """The edges of the graph explored from node 0, each (source, target, gain, cost, kept), and the answer."""
    graph = explore(TableModel([(source, target, 0) for source, target, *_ in edges]))
    gain, cost, keep = ([edges[label][k] for label in graph.label] for k in (2, 3, 4))
    answer = greatest_ratio(
        graph.first_edge, graph.target, np.array(keep, bool), np.array(gain, np.int64), np.array(cost, np.int64)
    )
    sources = [graph.source_of(edge) for edge in range(len(graph.target))]
    return list(zip(sources, graph.target.tolist(), gain, cost, keep, strict=True)), answer


def all_cycles(own):
    """Gain and cost of every simple cycle of kept edges. A node amid each edge tells parallel ones apart."""
    halves = nx.DiGraph()
    for k, (source, target, _, _, keep) in enumerate(own):
        if keep:
            halves.add_edge(("state", source), ("edge", k))
            halves.add_edge(("edge", k), ("state", target))
    for cycle in nx.simple_cycles(halves):
        edges = [own[k] for kind, k in cycle if kind == "edge"]
        yield sum(edge[2] for edge in edges), sum(edge[3] for edge in edges)


@settings(max_examples=400, deadline=None)
@given(GRAPHS)
def test_the_ratio_is_the_greatest_of_all_simple_cycles(edges):
    own, answer = greatest_of(edges)
    cycles = [(gain, cost) for gain, cost in all_cycles(own) if gain or cost]
    if not cycles:
        assert answer is None
        return
    loop = [own[edge] for edge in answer.loop]
    assert all(keep for *_, keep in loop)
    assert all(before[1] == after[0] for before, after in pairwise([*loop, loop[0]]))
    gain, cost = sum(edge[2] for edge in loop), sum(edge[3] for edge in loop)
    if any(cost == 0 for _, cost in cycles):
        assert (answer.cost, cost) == (0, 0)
        assert gain > 0
    else:
        expected = max(Fraction(gain, cost) for gain, cost in cycles)
        assert Fraction(answer.gain, answer.cost) == Fraction(gain, cost) == expected


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ([(0, 0, 1, 2, True), (0, 1, 9, 1, True)], (1, 2)),
        ([(0, 1, 3, 1, True), (1, 0, 0, 1, True), (0, 0, 1, 1, True)], (3, 2)),
        ([(0, 0, 1, 1, True), (0, 0, 5, 1, False)], (1, 1)),
        ([(0, 0, 1, 0, True), (0, 0, 5, 1, True)], (1, 0)),
        ([(0, 0, 0, 2, True)], (0, 1)),
        ([(0, 0, 0, 0, True)], None),
        ([(0, 1, 1, 1, True)], None),
    ],
    ids=["the way out does not count", "the longer cycle", "not kept", "free", "no gain", "idle", "no cycle"],
)
def test_small_ratios_by_hand(edges, expected):
    _, answer = greatest_of(edges)
    assert (answer and (answer.gain, answer.cost)) == expected
