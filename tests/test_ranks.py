"""Two ranks: the same pass over the same requests makes the same plans, and the model of both can say no."""

from __future__ import annotations

import numpy as np
import pytest
from sweeps import explored

from model_checking.ranks import OF_ONE_RANK, Rank, Ranks, moves_of
from stallproof.bounds import Bounds
from stallproof.claims import Verdict
from stallproof.explorer import explore
from stallproof.model import Kind, LifecycleModel, Move
from stallproof.policies import POLICIES, RESIDENT_FIRST

SMALL = Bounds(2, 3, 1, 1, 1, 2, 2)


def both(policy, bounds, other=None, **completions):
    return explore(Ranks(policy, (Rank(bounds), Rank(other or bounds)), **completions), threads=1)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_equal_ranks_agree_and_both_have_as_many_states_and_transitions_as_one(policy):
    """The pass is deterministic and the moves are shared, so the two are always in the same state."""
    pair = both(policy, SMALL)
    assert pair.complete
    assert pair.findings["ranks-agree"].verdict is Verdict.HOLDS
    one = explored(policy, SMALL)
    assert (pair.states, pair.transitions) == (one.states, one.transitions)
    halves = np.split(pair.rows, 2, axis=1)
    assert np.array_equal(halves[0], halves[1])


def test_with_copies_equal_ranks_agree_as_long_as_a_copy_counts_only_when_it_is_done_on_both():
    bounds = SMALL._replace(copies=True)
    pair = both(RESIDENT_FIRST, bounds)
    assert pair.findings["ranks-agree"].verdict is Verdict.HOLDS
    assert pair.states == explored(RESIDENT_FIRST, bounds).states
    apart = both(RESIDENT_FIRST, bounds, agree_on_completions=False)
    assert apart.findings["ranks-agree"].verdict is Verdict.VIOLATED


def test_ranks_with_other_tiers_agree_as_long_as_nobody_needs_the_difference():
    """2 requests of at most 3 pages hold at most 6: with 3 on the GPU, more than 3 host pages are never used."""
    assert both(RESIDENT_FIRST, SMALL._replace(host_pages=4), SMALL._replace(host_pages=3)).findings[
        "ranks-agree"
    ].verdict is (Verdict.HOLDS)
    fewer = both(RESIDENT_FIRST, SMALL, SMALL._replace(host_pages=0))
    assert fewer.findings["ranks-agree"].verdict is Verdict.VIOLATED


def test_a_label_says_on_which_rank_a_copy_is_done():
    move = Move(Kind.SETTLE, request=1)
    assert moves_of(move.label) == (move, move)
    assert moves_of(move.label | OF_ONE_RANK) == (move, None)
    assert moves_of(move.label | OF_ONE_RANK << 1) == (None, move)
    most = LifecycleModel(RESIDENT_FIRST, SMALL._replace(priorities=4)).successors(np.zeros((1, 2), np.uint64)).label
    assert max(most) < OF_ONE_RANK
