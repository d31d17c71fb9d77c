"""The model: states packed and unpacked, and a plain search that finds the same states one by one."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from situations import Row, Situation, counts_of, rows_of, situations, tables

from stallproof.bounds import MOST, Bounds
from stallproof.errors import UsageError
from stallproof.explorer import explore
from stallproof.lifecycle import Phase
from stallproof.model import Kind, LifecycleModel, Move, number_live, pack, unpack
from stallproof.policies import HELIX_PUBLISHED, RESIDENT_FIRST
from stallproof.requests import new_requests
from stallproof.tiers import new_tiers

BOTH = pytest.mark.parametrize("policy", [RESIDENT_FIRST, HELIX_PUBLISHED], ids=lambda policy: policy.name)
LIVE = {Phase.WAITING, Phase.ACTIVE, Phase.SUSPENDED, Phase.RECOMPUTE_PAUSED}


def packed(requests):
    words = np.full(len(requests.phase), 99, np.uint64)
    pack(requests, words)
    return words


def unpacked(words, situation):
    requests = new_requests(len(words))
    tiers = new_tiers(situation.gpu, situation.host, situation.page_tokens)
    tiers.free[:], tiers.held[:] = 77, 77  # whatever was there before
    unpack(words, requests, tiers)
    return requests, tiers


# ---- Packing --------------------------------------------------------------------------------------


def canonical(rows):
    """Finished rows gone, the others closed up; suspensions numbered 1, 2, ... among those that hold GPU pages."""
    kept = [row for row in rows if row.phase in LIVE]
    holders = sorted(row.suspension for row in kept if row.phase == Phase.SUSPENDED and row.gpu > 0)
    kept = [
        row._replace(suspension=holders.index(row.suspension) + 1 if row.suspension in holders else 0)
        if row.phase == Phase.SUSPENDED and row.gpu > 0
        else row._replace(suspension=0)
        for row in kept
    ]
    return kept + [Row()] * (len(rows) - len(kept))


@given(situations(), st.data())
def test_unpacking_a_packed_table_gives_it_back_closed_up(situation, data):
    rows = list(situation.rows)
    for r, row in enumerate(rows):  # some of the requests have just finished
        if row.gpu + row.host == 0 and data.draw(st.booleans()):
            rows[r] = Row(Phase.FINISHED, row.decoding, row.tokens, 0, row.computed)
    requests, tiers = tables(situation._replace(rows=rows))
    again, counts = unpacked(packed(requests), situation)
    assert rows_of(again) == canonical(rows)
    assert counts_of(counts) == counts_of(tiers)
    assert number_live(again) == sum(row.phase in LIVE for row in rows)


@given(situations())
def test_packing_what_was_unpacked_changes_no_bit(situation):
    requests, _ = tables(situation)
    words = packed(requests)
    again, _ = unpacked(words, situation)
    assert packed(again).tolist() == words.tolist()


def test_every_column_has_room_for_the_largest_number_the_bounds_allow():
    row = Row(Phase.SUSPENDED, 1, MOST, MOST, MOST, MOST, MOST, 1)
    again, _ = unpacked(packed(tables(Situation(MOST, MOST, [row]))[0]), Situation(MOST, MOST, [row]))
    assert rows_of(again) == [row]


def test_a_finished_request_leaves_and_the_others_close_up_in_order():
    two, three = Row(Phase.WAITING, 0, 2, 1), Row(Phase.WAITING, 0, 3, 1)
    rows = [Row(Phase.FINISHED, 1, 4, 0, 3), two, Row(Phase.FINISHED), three]
    again, _ = unpacked(packed(tables(Situation(4, 0, rows))[0]), Situation(4, 0, rows))
    assert rows_of(again) == [two, three, Row(), Row()]


def test_states_that_differ_only_in_how_late_suspensions_were_are_one_state():
    """The order matters (2 before 5, as 1 before 2), the numbers do not; nor does that of a request all on the host."""

    def state(first, second, on_host):
        held = [
            Row(Phase.SUSPENDED, 1, 3, 1, 2, 2, 0, first),
            Row(Phase.SUSPENDED, 1, 3, 1, 2, 1, 1, second),
            Row(Phase.SUSPENDED, 1, 2, 1, 1, 0, 1, on_host),
        ]
        return packed(tables(Situation(4, 4, held))[0]).tolist()

    assert state(1, 2, 3) == state(2, 5, 4) == state(3, 9, 1)
    assert state(1, 2, 3) != state(2, 1, 3)


# ---- Moves ----------------------------------------------------------------------------------------

lengths = st.integers(0, MOST)
moves = st.one_of(
    st.just(Move(Kind.PASS)),
    st.builds(Move, st.sampled_from([Kind.ARRIVE, Kind.REFUSE]), st.just(0), lengths, lengths),
    st.builds(lambda kind, r: Move(kind, request=r), st.sampled_from([Kind.STOP, Kind.CANCEL]), st.integers(0, 15)),
)


@given(moves)
def test_a_label_stands_for_one_move(move):
    assert 0 <= move.label < 1 << 31
    assert Move.of_label(move.label) == move


@pytest.mark.parametrize(
    "wrong",
    [
        {"live": 0},
        {"live": 17},
        {"gpu_pages": 0},
        {"host_pages": -1},
        {"page_tokens": 0},
        {"chunk_tokens": 0},
        {"max_prompt": MOST + 1},
        {"max_output": 0},
        {"max_prompt": 200, "max_output": 100},
    ],
)
def test_bounds_that_make_no_sense_are_refused_by_name(wrong):
    with pytest.raises(UsageError) as caught:
        LifecycleModel(RESIDENT_FIRST, Bounds(**wrong))
    for name in wrong:
        assert f"--{name.replace('_', '-')}" in str(caught.value)


# ---- A plain search -------------------------------------------------------------------------------


def enabled(model, step):
    """Every move the module's text allows in ``step.before``, worked out from the text."""
    bounds = model.bounds
    rows = [row for row in rows_of(step.before) if row.phase in LIVE]
    yield Move(Kind.PASS)
    if len(rows) < bounds.live:
        for prompt in range(1, bounds.max_prompt + 1):
            feasible = [
                output
                for output in range(1, bounds.max_output + 1)
                if -(-(prompt + output - 1) // bounds.page_tokens) <= bounds.gpu_pages
            ]
            if bounds.max_output not in feasible:
                yield Move(Kind.REFUSE, prompt=prompt, output=bounds.max_output)
            if bounds.early_stop and not bounds.every_output:
                feasible = feasible[-1:]
            yield from (Move(Kind.ARRIVE, prompt=prompt, output=output) for output in feasible)
    for r, row in enumerate(rows):
        if bounds.early_stop and row.phase == Phase.ACTIVE and row.decoding:
            yield Move(Kind.STOP, request=r)
        if bounds.cancel:
            yield Move(Kind.CANCEL, request=r)


def plain_search(model):
    """States, transitions and the levels' number, by a queue and a dict."""
    step = model.new_step()
    start = tuple(model.initial_rows()[0].tolist())
    depth = {start: 0}
    queue, transitions = deque([start]), 0
    while queue:
        state = queue.popleft()
        unpack(np.array(state, np.uint64), step.before, step.tiers_before)
        for move in list(enabled(model, step)):
            model.run(step, move)
            after = tuple(packed(step.after).tolist())
            transitions += 1
            if after not in depth:
                depth[after] = depth[state] + 1
                queue.append(after)
    return set(depth), transitions, max(depth.values())


SMALL = [
    Bounds(live=2, gpu_pages=4, host_pages=1),
    Bounds(live=2, gpu_pages=3, host_pages=0, every_output=True),
    Bounds(live=2, gpu_pages=3, host_pages=2, page_tokens=2, chunk_tokens=3, early_stop=False),
    Bounds(live=3, gpu_pages=3, host_pages=1, chunk_tokens=1, max_prompt=2, max_output=2, cancel=False),
]


@BOTH
@pytest.mark.parametrize("bounds", SMALL)
def test_a_plain_search_finds_the_same_states_transitions_and_depth(policy, bounds):
    model = LifecycleModel(policy, bounds)
    explored = explore(model, threads=1)
    states, transitions, depth = plain_search(model)
    assert {tuple(row) for row in explored.rows.tolist()} == states
    assert (explored.states, explored.transitions, explored.depth) == (len(states), transitions, depth)


# ---- Variants of the environment ------------------------------------------------------------------

VARIED = [
    Bounds(live=2, gpu_pages=4, host_pages=0),
    Bounds(live=2, gpu_pages=3, host_pages=2, chunk_tokens=1),
    Bounds(live=3, gpu_pages=4, host_pages=1, max_prompt=2),
    Bounds(live=3, gpu_pages=4, host_pages=0, chunk_tokens=3),
    Bounds(live=3, gpu_pages=3, host_pages=2, page_tokens=2, max_output=4),
    Bounds(live=3, gpu_pages=6, host_pages=1, max_output=4),
    Bounds(live=3, gpu_pages=5, host_pages=2, cancel=False),
]


def states_of(explored):
    return {tuple(row) for row in explored.rows.tolist()}


def without_output_left(explored):
    keep = np.uint64(~(MOST << 16) & (1 << 64) - 1)
    return {tuple(row) for row in (explored.rows & keep).tolist()}


@BOTH
@pytest.mark.parametrize("bounds", VARIED)
def test_every_output_length_changes_no_verdict_and_no_state_but_for_the_tokens_left(policy, bounds):
    reduced = explore(LifecycleModel(policy, bounds), threads=1)
    full = explore(LifecycleModel(policy, bounds._replace(every_output=True)), threads=1)
    verdicts = [{name: finding.verdict for name, finding in run.findings.items()} for run in (reduced, full)]
    assert verdicts[0] == verdicts[1]
    assert states_of(reduced) < states_of(full)
    assert without_output_left(full) == without_output_left(reduced)


@BOTH
@pytest.mark.parametrize("bounds", VARIED[:4])
def test_an_environment_that_can_do_less_reaches_no_other_state(policy, bounds):
    """Early stop is compared with every output length allowed: without it each length has to arrive by itself."""
    full = explore(LifecycleModel(policy, bounds._replace(every_output=True)), threads=1)
    for less in ({"cancel": False}, {"early_stop": False}, {"cancel": False, "early_stop": False}):
        explored = explore(LifecycleModel(policy, bounds._replace(every_output=True, **less)), threads=1)
        assert states_of(explored) <= states_of(full)
        assert explored.transitions < full.transitions


def test_a_model_keeps_to_its_own_bound_on_successors():
    for bounds in SMALL + VARIED:
        model = LifecycleModel(RESIDENT_FIRST, bounds)
        explored = explore(model, threads=1)
        assert np.diff(explored.first_edge).max() <= model.most_successors
