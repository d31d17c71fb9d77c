"""Two policies side by side: what they share, where they part, what a workload costs, and the exit code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stallproof.bounds import Bounds
from stallproof.checking import check
from stallproof.comparing import (
    REFERENCE,
    Throughput,
    compare,
    on_workload,
    same_operations,
    survey,
    survey_as_json,
    throughput,
)
from stallproof.errors import PoolTooSmall, UsageError
from stallproof.explorer import explore
from stallproof.lifecycle import Event
from stallproof.model import Kind, LifecycleModel, Move
from stallproof.plan import new_plan
from stallproof.policies import HELIX_PUBLISHED, POLICIES, RESIDENT_FIRST
from stallproof.traces import walk
from stallproof.workloads import Workload

DEAD_END = Bounds(gpu_pages=4, host_pages=0)
PASS = Move(Kind.PASS)


def workload(*requests, name="by hand"):
    """(arrival in seconds, prompt, output) each."""
    seconds, prompts, outputs = zip(*requests, strict=True)
    return Workload(name, np.array(seconds, float), np.array(prompts), np.array(outputs), skipped=0)


def operations(moment):
    return [(o.event, o.request, o.amount) for o in moment.operations]


@pytest.fixture(scope="module")
def dead_end():
    return compare(RESIDENT_FIRST, HELIX_PUBLISHED, DEAD_END, threads=1)


def test_both_sides_are_what_check_says_of_each(dead_end):
    for side, policy in zip(dead_end.sides, (RESIDENT_FIRST, HELIX_PUBLISHED), strict=True):
        expected = check(policy, DEAD_END, threads=1, all_worst_cases=True)
        assert side.policy is policy
        assert side.as_json() | {"seconds": 0, "states_per_second": 0} == expected.as_json() | {
            "seconds": 0,
            "states_per_second": 0,
        }


@pytest.mark.parametrize("bounds", [DEAD_END, Bounds(), Bounds(live=1)], ids=str)
def test_the_shared_states_are_those_in_both_sets(bounds):
    sets = [
        {row.tobytes() for row in explore(LifecycleModel(policy, bounds), threads=1).rows}
        for policy in (RESIDENT_FIRST, HELIX_PUBLISHED)
    ]
    assert compare(RESIDENT_FIRST, HELIX_PUBLISHED, bounds, threads=1).shared == len(sets[0] & sets[1])


def test_the_first_difference_is_the_dead_end_itself(dead_end):
    """4 GPU pages: after two arrivals and a pass one plan takes a victim and the other decides nothing for ever.

    Less than 3 steps cannot do: a plan gives way only if two are live and one has pages.
    """
    difference = dead_end.difference
    assert difference.after == 3
    assert difference.one.moves[:3] == difference.other.moves[:3]
    assert [move.kind for move in difference.one.moves[:3]] == [Kind.ARRIVE, Kind.ARRIVE, Kind.PASS]
    assert operations(difference.one.moments[3])
    assert not operations(difference.other.moments[3])
    assert difference.one.loop_start is None
    assert not difference.one.moments[-1].requests
    assert difference.other.loop_start == 3


@pytest.mark.parametrize("bounds", [DEAD_END, Bounds(), Bounds(gpu_pages=6, host_pages=1, max_output=4)], ids=str)
def test_up_to_the_difference_both_do_the_same_and_then_not(bounds):
    """Every policy walks the shared steps by itself; the states before the difference have equal plans in both."""
    difference = compare(RESIDENT_FIRST, HELIX_PUBLISHED, bounds, threads=1).difference
    models = [LifecycleModel(policy, bounds) for policy in (RESIDENT_FIRST, HELIX_PUBLISHED)]
    shared = difference.one.moves[: difference.after]
    one, other = (list(walk(model, [*shared, PASS])) for model in models)
    assert [operations(m) for m in one[:-1]] == [operations(m) for m in other[:-1]]
    assert operations(one[-1]) != operations(other[-1])
    assert (one[-2].row == other[-2].row).all()
    for run in (difference.one, difference.other):
        assert set(run.moves[difference.after :]) == {PASS}


def depth_of_first_difference(bounds):
    """A search in lockstep: level by level over states that both reach the same way, plans as plain lists."""
    models = [LifecycleModel(policy, bounds) for policy in (RESIDENT_FIRST, HELIX_PUBLISHED)]
    level, seen, depth = [()], {models[0].initial_rows()[0].tobytes()}, 0
    while level:
        following = []
        for moves in level:
            one, other = (list(walk(model, [*moves, PASS]))[-1] for model in models)
            if operations(one) != operations(other):
                return depth
            row = ([models[0].initial_rows()[0]] + [m.row for m in walk(models[0], moves)])[-1]
            found = models[0].successors(row[None, :])
            for label, target in zip(found.label, found.row, strict=True):
                if target.tobytes() not in seen:
                    seen.add(target.tobytes())
                    following.append((*moves, Move.of_label(int(label))))
        level, depth = following, depth + 1
    return None


@pytest.mark.parametrize(
    "bounds", [DEAD_END, Bounds(live=2, gpu_pages=3, host_pages=1), Bounds(live=2, gpu_pages=5)], ids=str
)
def test_no_difference_is_nearer(bounds):
    difference = compare(RESIDENT_FIRST, HELIX_PUBLISHED, bounds, threads=1).difference
    assert (difference and difference.after) == depth_of_first_difference(bounds)


def test_a_policy_never_differs_from_itself():
    comparison = compare(RESIDENT_FIRST, replace(RESIDENT_FIRST, name="the same"), Bounds(), threads=1)
    assert comparison.difference is None
    assert comparison.shared == comparison.one.states == comparison.other.states
    assert comparison.exit_code == 0


def test_plans_are_the_same_if_the_same_happens_to_the_same_to_the_same_amount():
    """For whom room is made is not asked."""
    plans = [new_plan(2) for _ in range(2)]
    for plan in plans:
        plan.operations[0] = 2
        plan.event[:2], plan.request[:2], plan.amount[:2] = (Event.GROW, Event.SCHEDULE), (0, 1), (1, 2)
    one, other = plans
    other.requester[1] = 1
    assert same_operations(one, other)
    for column in (other.event, other.request, other.amount, other.operations):
        column[0] += 1
        assert not same_operations(one, other)
        column[0] -= 1


# ---- exit codes ------------------------------------------------------------------------------------


def test_exit_code_1_if_either_is_violated(dead_end):
    assert dead_end.exit_code == 1
    assert compare(HELIX_PUBLISHED, RESIDENT_FIRST, DEAD_END, threads=1).exit_code == 1


def test_exit_code_3_if_a_search_was_cut_off_and_nothing_broke():
    comparison = compare(RESIDENT_FIRST, RESIDENT_FIRST, Bounds(), max_states=50, threads=1)
    assert comparison.exit_code == 3
    assert comparison.one.worst_cases == ()


def test_exit_code_1_if_one_stalls_on_the_workload():
    comparison = compare(RESIDENT_FIRST, RESIDENT_FIRST, Bounds(live=1), threads=1)
    assert replace(comparison, throughput=(Throughput(finished=1), Throughput(stall="stalled"))).exit_code == 1
    assert replace(comparison, throughput=(Throughput(finished=1),)).exit_code == 0


def test_bounds_without_sense_are_refused():
    with pytest.raises(UsageError, match="--live"):
        compare(RESIDENT_FIRST, HELIX_PUBLISHED, Bounds(live=0))


# ---- workloads -------------------------------------------------------------------------------------


def test_a_workload_by_hand():
    """A page a token, 4 pages, chunks of 2: the dead end's two requests, prompts 3 and 2, outputs 2 and 3.

    Pass 1 gives each 2 pages. Pass 2: the newer, whose 2 tokens are lost, is paused for the older, which goes
    on in pass 3 and is done in pass 4. The newer replays its 3 tokens in passes 5 and 6 and is done in 7.
    """
    both = workload((0, 3, 2), (0, 2, 3))
    sizes = {"gpu_pages": 4, "host_pages": 0, "page_tokens": 1, "chunk_tokens": 2}
    assert throughput(RESIDENT_FIRST, both, **sizes) == Throughput(
        finished=2,
        refused=0,
        passes=7,
        suspensions=0,
        recompute_pauses=1,
        recomputed_tokens=2,
        pages_moved=0,
        mean_passes=5.5,
        p99_passes=pytest.approx(4 + 0.99 * 3),
    )
    stalled = throughput(HELIX_PUBLISHED, both, **sizes)
    assert stalled.stall == "stalled at pass 2: no pass computes a token any more."
    assert set(stalled[:-1]) == {None}


def test_pages_are_counted_down_and_up_again():
    """2 pages, a host: the newer decode is suspended, its page goes to the host and comes back."""
    both = workload((0, 1, 2), (0, 1, 2))
    result = throughput(RESIDENT_FIRST, both, gpu_pages=2, host_pages=1, page_tokens=1, chunk_tokens=1)
    assert (result.suspensions, result.recompute_pauses, result.pages_moved) == (1, 0, 2)


def test_both_sides_get_the_same_workload_and_pools():
    comparison = on_workload(
        compare(RESIDENT_FIRST, HELIX_PUBLISHED, Bounds(live=1), threads=1), workload((0, 100, 5), (9, 1000, 1)),
        gpu_pages=2,
    )  # fmt: skip
    assert comparison.workload == "by hand, 2 requests, 2 GPU pages, 1 host pages"
    one, other = comparison.throughput
    assert one == other
    assert (one.finished, one.refused, one.passes, one.mean_passes) == (1, 1, 5, 5.0)


def test_pools_in_which_nothing_fits_are_refused():
    comparison = compare(RESIDENT_FIRST, HELIX_PUBLISHED, Bounds(live=1), threads=1)
    with pytest.raises(PoolTooSmall):
        on_workload(comparison, workload((0, 100, 5)), gpu_pages=1)


# ---- all of them -----------------------------------------------------------------------------------


def test_the_survey_judges_every_policy_at_every_reference_bound():
    results = list(survey(POLICIES.values()))
    assert [(result.policy.name, name) for name, result in results] == [
        (policy, name) for policy in POLICIES for name in REFERENCE
    ]
    assert all(result.bounds == result.policy.told_apart(REFERENCE[name]) for name, result in results)
    assert REFERENCE["GPU only"].host_pages == 0
    value = survey_as_json(results)
    assert [policy["name"] for policy in value] == list(POLICIES)
    assert value[1]["at"]["GPU only"]["trace_lengths"]["no-dead-end"] == 4
    assert value[1]["unclaimed"] == sorted(HELIX_PUBLISHED.unclaimed)
