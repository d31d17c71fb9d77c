"""Eventually-claims, against plain oracles on random small graphs."""

from __future__ import annotations

from collections import deque

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stallproof.claims import Kind, Verdict
from stallproof.explorer import NO_LABEL, SYSTEM_STEP, explore
from stallproof.explorer.cycles import strong_components

from .models import TableModel, bits, claim

ALWAYS, SOMETIMES, EVENTUALLY = range(3)
CLAIMS = (claim("a", Kind.ALWAYS), claim("s", Kind.SOMETIMES), claim("e", Kind.EVENTUALLY))
STEP = bits(EVENTUALLY, SYSTEM_STEP)
DAWDLE = bits(EVENTUALLY)


def judged(edges, **model):
    model = TableModel(edges, CLAIMS, **model)
    return model, explore(model).findings["e"]


def nodes(model, trace):
    return [model.node(step.row) for step in trace.steps]


def test_the_cycle_that_stateright_misses_is_found():
    """0->1, 1->0, 1->2, 2->2 and 'eventually 2': refuted by 0, 1, 0, 1, ..."""
    model, finding = judged([(0, 1, STEP), (1, 0, STEP), (1, 2, bits(SYSTEM_STEP)), (2, 2, bits(SYSTEM_STEP))])
    assert finding.verdict is Verdict.VIOLATED
    assert nodes(model, finding.trace) == [0, 1, 0]
    assert finding.trace.loop_start == 0
    assert finding.trace.length == 2


def test_a_cycle_of_environment_steps_alone_refutes_nothing():
    _, finding = judged([(0, 1, DAWDLE), (1, 0, DAWDLE), (1, 1, DAWDLE), (1, 2, STEP)])
    assert finding.verdict is Verdict.HOLDS
    assert finding.trace is None


def test_a_self_loop_of_the_system_refutes():
    model, finding = judged([(0, 1, 0), (1, 1, STEP)])
    assert nodes(model, finding.trace) == [0, 1, 1]
    assert finding.trace.loop_start == 1


def test_a_shorter_loop_without_a_system_step_is_passed_over():
    """The loop at 0 goes round by 1, though the environment could stay at 0."""
    model, finding = judged([(0, 0, DAWDLE), (0, 1, DAWDLE), (1, 0, STEP)])
    assert nodes(model, finding.trace) == [0, 1, 0]


def test_a_loop_may_pass_its_start_on_the_way_to_a_system_step():
    """The system step is a self-loop of 1; the loop of least depth starts at 0 and takes it on the way."""
    model, finding = judged([(0, 1, DAWDLE), (1, 1, STEP), (1, 0, DAWDLE)])
    assert nodes(model, finding.trace) == [0, 1, 1, 0]


def test_two_edges_between_the_same_states_are_two_edges():
    """One of the environment, one of the system; scipy's component search never ends on such a graph."""
    _, finding = judged([(0, 1, DAWDLE), (0, 1, STEP), (1, 0, DAWDLE), (1, 0, DAWDLE)])
    assert finding.verdict is Verdict.VIOLATED
    assert [step.label for step in finding.trace.steps] == [NO_LABEL, 1, 2]


def test_the_stem_need_not_leave_the_claim_unfulfilled():
    model, finding = judged([(0, 1, 0), (1, 2, 0), (2, 1, STEP), (1, 2, STEP)])
    assert nodes(model, finding.trace) == [0, 1, 2, 1]
    assert finding.trace.loop_start == 1


graphs = st.integers(1, 7).flatmap(
    lambda size: st.tuples(
        st.just(size),
        st.lists(
            st.tuples(
                st.integers(0, size - 1),
                st.integers(0, size - 1),
                st.sets(st.sampled_from([ALWAYS, SOMETIMES, EVENTUALLY, EVENTUALLY, SYSTEM_STEP])).map(
                    lambda positions: bits(*positions)
                ),
            ),
            max_size=16,
        ),
        st.lists(st.integers(0, size - 1), min_size=1, max_size=2),
    )
)


def distances(edges, starts):
    """Steps to every node that can be reached, by search over a dictionary."""
    found = dict.fromkeys(starts, 0)
    queue = deque(starts)
    while queue:
        node = queue.popleft()
        for source, target, _ in edges:
            if source == node and target not in found:
                found[target] = found[node] + 1
                queue.append(target)
    return found


def loop_lengths(edges, reached):
    """Per node, the length of a shortest closed walk of unfulfilled edges with a system step."""
    unfulfilled = [edge for edge in edges if edge[0] in reached and edge[2] >> EVENTUALLY & 1]
    lengths = {}
    for source, target, facts in unfulfilled:
        if facts >> SYSTEM_STEP & 1:
            there = {node: distances(unfulfilled, [node]) for node in reached}
            back = distances(unfulfilled, [target])
            for node in reached:
                if source in there[node] and node in back:
                    length = there[node][source] + 1 + back[node]
                    lengths[node] = min(length, lengths.get(node, length))
    return lengths


def assert_real(model, trace, starts):
    """Every step is an edge of the model, from an initial state on."""
    edges = dict(model.edges)
    walk = nodes(model, trace)
    assert walk[0] in starts
    assert trace.steps[0].label == NO_LABEL
    for before, after, step in zip(walk, walk[1:], trace.steps[1:], strict=False):
        assert edges[step.label][:2] == (before, after)
    return [edges[step.label][2] for step in trace.steps[1:]]


@settings(max_examples=300, deadline=None)
@given(graphs, st.sampled_from([1, 2]), st.sampled_from([1, 2, 100]))
def test_verdicts_and_trace_lengths_are_those_of_a_naive_search(graph, threads, chunk_rows):
    _, edges, starts = graph
    model = TableModel(edges, CLAIMS, initial=starts, words=2)
    found = explore(model, threads=threads, chunk_rows=chunk_rows)
    depth = distances(edges, starts)
    reached = [edge for edge in edges if edge[0] in depth]
    assert found.states == len(depth)
    assert found.transitions == len(reached)
    assert found.depth == max(depth.values())

    for bit, name, seen in ((ALWAYS, "a", Verdict.VIOLATED), (SOMETIMES, "s", Verdict.HOLDS)):
        shortest = min((depth[source] + 1 for source, _, facts in reached if facts >> bit & 1), default=None)
        finding = found.findings[name]
        assert (finding.verdict is seen) == (shortest is not None)
        assert (finding.trace and finding.trace.length) == shortest
        if finding.trace:
            assert assert_real(model, finding.trace, starts)[-1] >> bit & 1

    finding = found.findings["e"]
    loops = loop_lengths(edges, depth)
    assert (finding.verdict is Verdict.VIOLATED) == bool(loops)
    if loops:
        trace = finding.trace
        facts = assert_real(model, trace, starts)
        walk = nodes(model, trace)
        stem, loop = trace.loop_start, trace.length - trace.loop_start
        assert walk[-1] == walk[stem]
        assert stem == min(depth[node] for node in loops) == depth[walk[stem]]
        assert loop == loops[walk[stem]]
        assert all(fact >> EVENTUALLY & 1 for fact in facts[stem:])
        assert any(fact >> SYSTEM_STEP & 1 for fact in facts[stem:])


@settings(max_examples=200, deadline=None)
@given(graphs)
def test_components_are_those_of_networkx(graph):
    size, edges, _ = graph
    edges = sorted(edges)
    first = np.searchsorted([source for source, _, _ in edges], np.arange(size + 1)).astype(np.int32)
    component = strong_components(first, np.array([target for _, target, _ in edges], np.int32))
    expected = nx.DiGraph()
    expected.add_nodes_from(range(size))
    expected.add_edges_from((source, target) for source, target, _ in edges)
    found = {frozenset(np.flatnonzero(component == number).tolist()) for number in component}
    assert found == {frozenset(members) for members in nx.strongly_connected_components(expected)}
