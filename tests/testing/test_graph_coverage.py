"""How much of a graph was seen is counted right, and steering sees all of a small one."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from stallproof.bounds import Bounds
from stallproof.model import Kind, Move
from stallproof.observations import Pool
from stallproof.testing.coverage import GraphCoverage
from tests.stateful.own_pass import OwnPass

ONE = Bounds(live=1, gpu_pages=1, host_pages=0, max_prompt=1, max_output=1, early_stop=False, every_output=True)


def test_the_smallest_graph_is_counted_by_hand():
    """Nobody, or one that waits. Of nobody: a pass, an arrival. Of one: a pass that finishes it, its cancellation."""
    coverage = GraphCoverage("resident-first", ONE)
    assert coverage.summary().startswith("resident-first, 0 moves: saw 1 of 2 states, 0 of 4 edges")
    for state, move, after in [
        (0, Move(Kind.ARRIVE, prompt=1, output=1), 1),
        (1, Move(Kind.PASS), 0),
        (0, Move(Kind.PASS), 0),
    ]:
        coverage.see(state, move, after)
    assert coverage.summary() == "resident-first, 3 moves: saw 2 of 2 states, 3 of 4 edges; unseen edges: 1 cancel"
    assert coverage.towards_the_unseen(1, 0, history=1) == Move(Kind.CANCEL)
    coverage.see(1, Move(Kind.CANCEL), 0)
    assert coverage.summary().endswith("no edge is unseen")
    assert coverage.towards_the_unseen(1, 0, history=2) is None


def test_the_way_to_an_unseen_edge_leads_through_seen_ones():
    """Only the cancellation is unseen, and nobody is there: somebody has to arrive."""
    coverage = GraphCoverage("resident-first", ONE)
    for state, move, after in [
        (0, Move(Kind.ARRIVE, prompt=1, output=1), 1),
        (1, Move(Kind.PASS), 0),
        (0, Move(Kind.PASS), 0),
    ]:
        coverage.see(state, move, after)
    assert coverage.towards_the_unseen(0, 0, history=0) == Move(Kind.ARRIVE, prompt=1, output=1)


def test_what_was_decided_stays_decided():
    """Hypothesis plays a run again: it must go the same way, whatever was seen in between."""
    coverage = GraphCoverage("resident-first", ONE)
    first = coverage.towards_the_unseen(0, 0, history=0)
    coverage.see(0, first, 1 if first.kind is Kind.ARRIVE else 0)
    assert coverage.towards_the_unseen(0, 0, history=0) == first


def test_a_move_to_a_state_that_the_policy_cannot_be_in_is_counted():
    coverage = GraphCoverage("resident-first", ONE)
    coverage.see(0, Move(Kind.PASS), None)
    assert coverage.summary().endswith("1 moves led to a state that resident-first cannot be in")


def test_a_steered_fuzz_sees_every_state_and_edge_of_a_small_graph():
    """Whoever follows the policy is never a stranger to its graph."""

    class Small(OwnPass):
        pool = Pool(gpu_pages=2, host_pages=1, page_tokens=1)
        live, max_prompt, max_output, chunk_tokens = 2, 2, 2, 1

    quick = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(Small, settings=quick)
    coverage = Small._coverage_of_this()
    assert coverage.strangers == 0
    assert coverage.summary().endswith("no edge is unseen")
