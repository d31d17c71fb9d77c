"""Following one request: what passes do to whom, and the graph over states and rows, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from stallproof.bounds import Bounds
from stallproof.explorer import explore
from stallproof.following import NOBODY_LEAVES, follow, leavers, passes_of
from stallproof.model import Kind, LifecycleModel, Move
from stallproof.policies import POLICIES, policy_named
from stallproof.traces import walk

ONE_TOKEN = Bounds(live=2, gpu_pages=2, host_pages=0, chunk_tokens=1, max_prompt=1, max_output=1)


def modelled(policy, bounds):
    model = LifecycleModel(policy_named(policy), bounds)
    return model, explore(model, threads=1)


def test_only_who_is_stopped_or_cancelled_leaves_outside_a_pass():
    moves = [
        Move(Kind.PASS),
        Move(Kind.ARRIVE, prompt=3, output=2),
        Move(Kind.REFUSE, prompt=2, output=3),
        Move(Kind.STOP, request=2),
        Move(Kind.CANCEL, request=0),
    ]
    rows = leavers(np.array([move.label for move in moves], np.int32))
    assert rows.tolist() == [NOBODY_LEAVES, NOBODY_LEAVES, NOBODY_LEAVES, 2, 0]
    assert len(leavers(np.array([], np.int32))) == 0


def test_requests_of_one_token_finish_in_their_first_pass():
    """States: nobody, one, two. Each live request computes its prompt, gets its token, and is done."""
    model, exploration = modelled("resident-first", ONE_TOKEN)
    assert exploration.states == 3
    passes = passes_of(model, exploration.rows)
    assert passes.live.tolist() == [0, 1, 2]
    assert passes.finishes.tolist() == [[False, False], [True, False], [True, True]]
    assert passes.delivered.tolist() == [0, 1, 2]
    assert not passes.suspensions.any()
    assert not passes.recompute_pauses.any()
    assert not passes.recomputed.any()


def test_the_nodes_are_the_live_rows_and_a_place_for_who_is_done():
    """Nodes: the one of state 1, both of state 2, done.

    An arrival moves nobody; when the first is cancelled, the second becomes the first.
    """
    model, exploration = modelled("resident-first", ONE_TOKEN)
    everything = np.ones(len(exploration.target), np.bool_)
    followed = follow(exploration, passes_of(model, exploration.rows), everything, rows=2)
    assert followed.state.tolist() == [1, 2, 2]
    assert followed.row.tolist() == [0, 0, 1]
    moves = [Move.of_label(int(exploration.label[edge])) for edge in followed.edge]
    found = {
        node: {
            (moves[k].kind, moves[k].request): int(followed.target[k])
            for k in range(followed.first[node], followed.first[node + 1])
        }
        for node in range(4)
    }
    assert found == {
        0: {(Kind.PASS, 0): 3, (Kind.ARRIVE, 0): 1},
        1: {(Kind.PASS, 0): 3, (Kind.CANCEL, 1): 0},
        2: {(Kind.PASS, 0): 3, (Kind.CANCEL, 0): 0},
        3: {},
    }


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("bounds", [Bounds(live=2), Bounds(gpu_pages=4, host_pages=0)], ids=str)
def test_a_node_s_edges_lead_where_the_request_of_that_number_stands(policy, bounds):
    """Along shortest runs to a sample of states, with numbers of arrival, as the timeline counts them."""
    model, exploration = modelled(policy, bounds)
    everything = np.ones(len(exploration.target), np.bool_)
    followed = follow(exploration, passes_of(model, exploration.rows), everything, bounds.live)
    place = {(int(s), int(r)): node for node, (s, r) in enumerate(zip(followed.state, followed.row, strict=True))}
    done = len(followed.state)
    for edge in range(0, len(exploration.target), 7):
        source, target = exploration.source_of(edge), int(exploration.target[edge])
        moves, state = [Move.of_label(int(exploration.label[edge]))], source
        while exploration.parent[state] >= 0:
            moves.insert(0, Move.of_label(int(exploration.parent_label[state])))
            state = int(exploration.parent[state])
        *before, last = walk(model, moves)
        numbers = [r.number for r in before[-1].requests] if before else []
        after = [r.number for r in last.requests]
        for row, number in enumerate(numbers):
            node = place[source, row]
            leads = [
                int(followed.target[k])
                for k in range(followed.first[node], followed.first[node + 1])
                if followed.edge[k] == edge
            ]
            if number in after:
                assert leads == [place[target, after.index(number)]]
            else:
                assert leads == ([done] if last.move.kind is Kind.PASS else [])
