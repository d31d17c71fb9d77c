"""The search: all states, each once, in breadth-first order, the same on every run."""

from __future__ import annotations

from itertools import pairwise
from math import comb

import numpy as np
import pytest

from stallproof.claims import Kind, Verdict
from stallproof.compiled import INTERPRETED
from stallproof.errors import UsageError
from stallproof.explorer import NO_LABEL, NO_STATE, Exploration, Progress, Successors, explore

from .models import TableModel, Tokens, bits, claim

compiled_only = pytest.mark.skipif(INTERPRETED, reason="so many states take minutes when interpreted")

SIZES = [
    pytest.param(4, 2, 513, 1_909),
    pytest.param(7, 3, 55_485, 358_156, marks=compiled_only),
    pytest.param(9, 3, 942_597, 7_503_598, marks=compiled_only),
]


def states_of(processes: int, tokens: int) -> int:
    """Choose who holds; a holder has two states to be in, anybody else three."""
    return sum(comb(processes, held) * 2**held * 3 ** (processes - held) for held in range(tokens + 1))


def same_exploration(one: Exploration, other: Exploration) -> bool:
    """Equal in everything but time, traces included."""
    arrays = ("rows", "parent", "parent_label", "level_start", "first_edge", "target", "label", "facts", "fired")
    return (
        all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays)
        and (one.transitions, one.complete) == (other.transitions, other.complete)
        and [shown(finding) for finding in one.findings.values()]
        == [shown(finding) for finding in other.findings.values()]
    )


def shown(finding):
    trace = finding.trace
    steps = trace and [(step.label, tuple(step.row)) for step in trace.steps]
    return finding.claim.name, finding.verdict, finding.states_checked, steps, trace and trace.loop_start


@pytest.mark.parametrize(("processes", "tokens", "states", "transitions_and_start"), SIZES)
def test_the_toy_has_as_many_states_and_transitions_as_published(processes, tokens, states, transitions_and_start):
    """TLC and Spin count the initial state as a transition; the explorer does not."""
    found = explore(Tokens(processes, tokens))
    assert found.states == states == states_of(processes, tokens)
    assert found.transitions + 1 == transitions_and_start
    assert found.complete
    assert found.findings["free tokens are never negative"].verdict is Verdict.HOLDS
    assert found.findings["all tokens are held"].verdict is Verdict.HOLDS


@compiled_only
def test_the_toy_of_nine_has_37_levels():
    """The initial state is level 0, so the last is number 36."""
    assert explore(Tokens(9, 3)).depth + 1 == 37


def test_a_process_that_skips_the_guard_is_caught_after_eight_steps():
    """Two steps each for three who take the tokens and for the one who takes a fourth."""
    processes, tokens = (4, 3) if INTERPRETED else (7, 3)
    finding = explore(Tokens(processes, tokens, last_skips_the_guard=True)).findings["free tokens are never negative"]
    assert finding.verdict is Verdict.VIOLATED
    assert finding.trace.length == 8
    assert finding.trace.loop_start is None
    assert finding.trace.steps[0].label == NO_LABEL
    assert not finding.trace.steps[0].row.any()


def test_the_first_time_all_tokens_are_held_is_shown_by_a_shortest_run():
    """Two steps for each of the holders."""
    assert explore(Tokens(4, 2)).findings["all tokens are held"].trace.length == 4


@pytest.mark.parametrize("words", [1, 4])
@pytest.mark.parametrize("max_states", [None, 300])
def test_threads_and_chunks_change_nothing(words, max_states):
    """Ids, counts, edges, verdicts and traces are equal for every number of threads and every chunk."""
    model = Tokens(4, 2, last_skips_the_guard=True, words=words)
    alone = explore(model, threads=1, max_states=max_states)
    for threads in (1, 2, 4):
        for chunk_rows in (1, 7, 64, 1 << 14):
            other = explore(model, threads=threads, chunk_rows=chunk_rows, max_states=max_states)
            assert same_exploration(alone, other), (threads, chunk_rows)


@compiled_only
def test_threads_change_nothing_in_a_search_of_many_chunks():
    """The same with chunks that are really in flight together."""
    alone = explore(Tokens(7, 3, words=2), threads=1)
    for _ in range(3):
        assert same_exploration(alone, explore(Tokens(7, 3, words=2), threads=4, chunk_rows=100))


def test_ids_are_in_breadth_first_order_and_parents_lead_back():
    """Each state is one level below its parent, and its parent has an edge of that label to it."""
    found = explore(Tokens(4, 2))
    assert found.level_start[0] == 0
    assert found.level_start[-1] == found.states
    assert found.depth_of(0) == 0
    for state in range(1, found.states):
        parent = int(found.parent[state])
        assert found.depth_of(parent) + 1 == found.depth_of(state)
        edges = range(found.first_edge[parent], found.first_edge[parent + 1])
        assert (state, found.parent_label[state]) in [(found.target[edge], found.label[edge]) for edge in edges]
        assert all(found.source_of(edge) == parent for edge in edges)
    assert found.parent[0] == NO_STATE
    assert found.parent_label[0] == NO_LABEL


def test_initial_states_that_repeat_count_once():
    found = explore(TableModel([(0, 2, 0), (1, 2, 0)], initial=(0, 1, 0)))
    assert (found.states, found.transitions, found.depth) == (3, 2, 1)
    assert list(found.parent) == [NO_STATE, NO_STATE, 0]


def test_repeated_transitions_and_self_loops_are_counted_and_kept():
    found = explore(TableModel([(0, 0, 0), (0, 1, 0), (0, 1, 0)]))
    assert (found.states, found.transitions) == (2, 3)
    assert list(found.target) == [0, 1, 1]
    assert list(found.first_edge) == [0, 3, 3]


def test_the_model_s_counters_are_added_up():
    """The table model counts rows expanded and transitions made."""
    for chunk_rows in (1, 3, 1 << 14):
        found = explore(TableModel([(0, 1, 0), (1, 2, 0), (0, 3, 0), (3, 0, 0)]), chunk_rows=chunk_rows)
        assert list(found.fired) == [found.states, found.transitions]


class TestCutOff:
    """A search that was cut off says so, and still reports what it saw."""

    def test_is_bound_reached_and_never_holds(self):
        model = TableModel(
            [(node, node + 1, 0) for node in range(9)],
            [claim("a", Kind.ALWAYS), claim("s", Kind.SOMETIMES), claim("e", Kind.EVENTUALLY)],
        )
        found = explore(model, max_states=5)
        assert (found.states, found.complete) == (5, False)
        assert {finding.verdict for finding in found.findings.values()} == {Verdict.BOUND_REACHED}
        assert all(finding.trace is None for finding in found.findings.values())

    def test_at_exactly_all_states_is_complete(self):
        model = TableModel([(0, 1, 0), (1, 0, 0)], [claim("a", Kind.ALWAYS)])
        found = explore(model, max_states=2)
        assert found.complete
        assert found.findings["a"].verdict is Verdict.HOLDS

    def test_reports_a_violation_on_a_transition_beyond_the_bound(self):
        """The offending state is not stored; the trace shows it all the same."""
        model = TableModel([(0, 1, 0), (1, 2, bits(0))], [claim("a", Kind.ALWAYS)])
        found = explore(model, max_states=2)
        finding = found.findings["a"]
        assert finding.verdict is Verdict.VIOLATED
        assert [model.node(step.row) for step in finding.trace.steps] == [0, 1, 2]
        assert (found.states, found.transitions, len(found.target)) == (2, 2, 1)

    def test_says_that_a_witness_was_seen(self):
        model = TableModel([(0, 1, bits(0)), (1, 2, 0)], [claim("s", Kind.SOMETIMES)])
        assert explore(model, max_states=2).findings["s"].verdict is Verdict.HOLDS

    def test_says_that_a_cycle_was_seen(self):
        """Edges to states left out are dropped; a cycle among those kept is real."""
        model = TableModel([(0, 1, 0), (0, 0, bits(0, 63)), (1, 2, 0)], [claim("e", Kind.EVENTUALLY)])
        assert explore(model, max_states=1).findings["e"].verdict is Verdict.VIOLATED

    def test_keeps_initial_states_to_the_bound(self):
        found = explore(TableModel([], initial=(0, 1, 2)), max_states=2)
        assert (found.states, found.complete) == (2, False)

    def test_stores_no_more_than_the_bound_and_the_first_of_a_whole_search(self):
        whole, part = explore(Tokens(4, 2)), explore(Tokens(4, 2), max_states=100, chunk_rows=3)
        assert part.states == 100
        assert np.array_equal(part.rows, whole.rows[:100])
        assert part.target.min() >= 0
        assert part.target.max() < 100


def test_an_offending_transition_into_a_known_state_is_seen():
    model = TableModel([(0, 1, 0), (1, 0, bits(0))], [claim("a", Kind.ALWAYS)])
    trace = explore(model).findings["a"].trace
    assert [(step.label, model.node(step.row)) for step in trace.steps] == [(NO_LABEL, 0), (0, 1), (1, 0)]


def test_a_sometimes_claim_that_never_happened_is_violated_without_a_trace():
    finding = explore(TableModel([(0, 1, 0)], [claim("s", Kind.SOMETIMES)])).findings["s"]
    assert (finding.verdict, finding.trace, finding.states_checked) == (Verdict.VIOLATED, None, 2)


def test_a_claim_that_does_not_apply_is_not_judged():
    model = TableModel([(0, 1, bits(0))], [claim("a", Kind.ALWAYS)], applicable=[False])
    assert explore(model).findings["a"].verdict is Verdict.NOT_APPLICABLE


def test_forty_four_claims_have_a_bit_each():
    model = TableModel([(0, 1, bits(0, 42, 63)), (1, 2, bits(43))], [claim(f"a{i}", Kind.ALWAYS) for i in range(44)])
    found = explore(model)
    lengths = {name: finding.trace.length for name, finding in found.findings.items() if finding.trace}
    assert lengths == {"a0": 1, "a42": 1, "a43": 2}


@pytest.mark.parametrize("threads", [1, 2])
def test_an_exception_of_the_model_passes_through(threads):
    class Breaks(TableModel):
        def successors(self, rows):
            if self.node(rows[0]) == 3:
                raise KeyError("three")
            return super().successors(rows)

    model = Breaks([(0, node, 0) for node in range(1, 9)])
    with pytest.raises(KeyError, match="three"):
        explore(model, threads=threads, chunk_rows=1)


@pytest.mark.parametrize("arguments", [{"max_states": 0}, {"threads": 0}, {"chunk_rows": 0}])
def test_a_bound_below_one_is_refused(arguments):
    with pytest.raises(UsageError, match=r"is 0\. It must be at least 1"):
        explore(TableModel([]), **arguments)


def test_a_model_without_initial_states_is_refused():
    """Every claim would hold of it."""
    with pytest.raises(UsageError, match="no initial state"):
        explore(TableModel([], initial=()))


def test_sixty_one_claims_are_refused():
    with pytest.raises(UsageError, match="61 claims"):
        explore(TableModel([], [claim(str(i), Kind.ALWAYS) for i in range(61)]))


def test_two_claims_of_one_name_are_refused():
    """The finding of one would hide that of the other."""
    with pytest.raises(UsageError, match="same name"):
        explore(TableModel([], [claim("a", Kind.ALWAYS), claim("a", Kind.SOMETIMES)]))


@pytest.mark.parametrize("sources", [[0, 1], [-1, 0], [1, 0]])
def test_successors_that_break_the_contract_are_refused(sources):
    """An index out of range would otherwise reach compiled code, which does not check."""

    class Broken(TableModel):
        def successors(self, _):
            none = np.zeros(2, np.int32)
            return Successors(np.array(sources, np.int32), none, self.rows([0, 1]), none.astype(np.uint64), none)

    with pytest.raises(ValueError, match="do not ascend"):
        explore(Broken([]))


def test_progress_adds_up():
    seen: list[Progress] = []
    found = explore(Tokens(4, 2), chunk_rows=10, progress=seen.append)
    assert (seen[-1].states, seen[-1].transitions, seen[-1].queue) == (found.states, found.transitions, 0)
    assert seen[-1].depth == found.depth
    assert all(one.seconds <= other.seconds and one.states <= other.states for one, other in pairwise(seen))
