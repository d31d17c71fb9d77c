"""The model: states packed and unpacked, and a plain search that finds the same states one by one."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from situations import packed, rows_of

from stallproof.bounds import MOST, MOST_PRIORITIES, Bounds
from stallproof.errors import UsageError
from stallproof.explorer import explore
from stallproof.lifecycle import Phase
from stallproof.model import OF_A_ROW, Kind, LifecycleModel, Move
from stallproof.packing import unpack
from stallproof.policies import HELIX_PUBLISHED, RESIDENT_FIRST

BOTH = pytest.mark.parametrize("policy", [RESIDENT_FIRST, HELIX_PUBLISHED], ids=lambda policy: policy.name)
LIVE = {Phase.WAITING, Phase.ACTIVE, Phase.SUSPENDED, Phase.RECOMPUTE_PAUSED}


# ---- Moves ----------------------------------------------------------------------------------------

lengths = st.integers(0, MOST)
moves = st.one_of(
    st.builds(lambda drafts: Move(Kind.PASS, drafts=drafts), st.integers(0, 4**8 - 1)),
    st.builds(
        lambda kind, prompt, output, priority: Move(kind, 0, prompt, output, priority),
        st.sampled_from([Kind.ARRIVE, Kind.REFUSE]),
        lengths,
        lengths,
        st.integers(0, MOST_PRIORITIES - 1),
    ),
    st.builds(lambda kind, r: Move(kind, request=r), st.sampled_from(OF_A_ROW), st.integers(0, 15)),
    st.just(Move(Kind.SETTLE_ABANDONED)),
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
            after = tuple(packed(step.after, step.tiers).tolist())
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
