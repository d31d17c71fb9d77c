"""The heaviest run, against searches over dictionaries and networkx on random small graphs."""

from __future__ import annotations

import heapq

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stallproof.explorer import explore, longest_run, subgraph

from .models import TableModel

GRAPHS = st.integers(1, 7).flatmap(
    lambda size: st.lists(
        st.tuples(
            st.integers(0, size - 1),
            st.integers(0, size - 1),
            st.sampled_from([0, 0, 0, 1, 1, 2, 5]),
            st.sampled_from([True, True, False]),
        ),
        max_size=14,
    )
)


def heaviest_of(edges):
    """The graph explored from node 0 over (source, target, weight, kept) edges, those kept, and their heaviest run."""
    graph = explore(TableModel([(source, target, 0) for source, target, *_ in edges]))
    keep = np.array([edges[label][3] for label in graph.label], np.bool_)
    first, target, kept = subgraph(graph.first_edge, graph.target, keep, np.ones(graph.states, np.bool_))
    weight = np.array([edges[graph.label[edge]][2] for edge in kept], np.int64)
    run = longest_run(first, target, weight, graph.depths)
    own = [(graph.source_of(edge), int(graph.target[edge]), int(mass)) for edge, mass in zip(kept, weight, strict=True)]
    return graph, own, run


def reference(states, edges):
    """The greatest weight by relaxation, or None. A run without cycles has fewer edges than there are states."""
    best = dict.fromkeys(range(states), 0)
    for _ in range(states):
        before = dict(best)
        for source, target, weight in edges:
            best[target] = max(best[target], best[source] + weight)
        if best == before:
            return max(best.values())
    return None


def fewest_steps(depth, edges, weight):
    """Of all runs of this weight the fewest steps, counted from the initial state: Dijkstra over (state, weight)."""
    queue = [(steps, state, 0) for state, steps in enumerate(depth)]
    heapq.heapify(queue)
    seen = set()
    while queue:
        steps, state, carried = heapq.heappop(queue)
        if carried == weight:
            return steps
        if (state, carried) in seen:
            continue
        seen.add((state, carried))
        for source, target, more in edges:
            if source == state and carried + more <= weight:
                heapq.heappush(queue, (steps + 1, target, carried + more))
    raise AssertionError("no run has this weight")


@settings(max_examples=400, deadline=None)
@given(GRAPHS)
def test_the_run_is_a_heaviest_and_of_these_a_shortest(edges):
    graph, own, run = heaviest_of(edges)
    expected = reference(graph.states, own)
    if expected is None:
        assert run is None
        return
    assert run.weight == expected
    assert run.weight == sum(own[edge][2] for edge in run.edges)
    at = run.start
    for edge in run.edges:
        assert own[edge][0] == at
        at = own[edge][1]
    assert int(graph.depths[run.start]) + len(run.edges) == fewest_steps(graph.depths.tolist(), own, expected)


@settings(max_examples=200, deadline=None)
@given(GRAPHS)
def test_without_cycles_networkx_finds_the_same_weight(edges):
    forward = [(min(source, target), max(source, target), *rest) for source, target, *rest in edges]
    _, own, run = heaviest_of([edge for edge in forward if edge[0] != edge[1]])
    expected = nx.MultiDiGraph()
    expected.add_node(0)
    expected.add_weighted_edges_from(own)
    assert run.weight == nx.dag_longest_path_length(expected, weight="weight")


def test_to_start_further_on_is_shorter_than_to_walk_there():
    """0 to 2 is one step, over an edge that is left out; over those that are kept it is two, by 1."""
    *_, run = heaviest_of([(0, 1, 0, True), (0, 2, 0, False), (1, 2, 0, True), (2, 3, 5, True)])
    assert (run.weight, run.start, run.edges) == (5, 2, (2,))


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ([(0, 1, 5), (0, 2, 1), (1, 2, 1)], (6, 0, (0, 2))),
        ([(0, 0, 0), (0, 1, 3)], (3, 0, (1,))),
        ([(0, 0, 1), (0, 1, 3)], None),
        ([(0, 1, 0), (1, 0, 0)], (0, 0, ())),
        ([(0, 1, 0), (1, 0, 0), (1, 2, 4)], (4, 0, (0, 2))),
        ([(0, 1, 2), (1, 2, 0), (2, 1, 0), (2, 3, 2)], (4, 0, (0, 1, 3))),
        ([(0, 1, 2), (1, 2, 0), (2, 1, 1), (2, 3, 2)], None),
        ([], (0, 0, ())),
    ],
    ids=["longer way", "idle loop", "loop with weight", "idle cycle", "out of it", "through it", "growing", "nothing"],
)
def test_small_runs_by_hand(edges, expected):
    """States come in the order of their numbers here, and edges in the order given.

    "out of it": to start at 1, a step deep, is as short as to go there from 0.
    """
    *_, run = heaviest_of([(*edge, True) for edge in edges])
    assert (run and (run.weight, run.start, run.edges)) == expected
