"""Replaying: what the engine recorded, the pass repeats; where it does not, the first place is named with its guard."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from stallproof.engine import Engine
from stallproof.lifecycle import Event, Phase
from stallproof.observations import Change, PassEnd, Pool, Standing
from stallproof.outcomes import Refusal, Stall
from stallproof.policies import POLICIES
from stallproof.recording import Header, Recording
from stallproof.replaying import replay

SIZES = Pool(6, 2, 2)
CHUNK = 3


def recorded(policy, pool=SIZES, requests=((5, 6),) * 6, cancel=(), chunk=CHUNK):
    """An engine's own recording of requests that arrive two a pass, until all are done or it stalls."""
    seen = []
    engine = Engine(policy, *pool, chunk, observer=seen.append)
    waiting = list(requests)
    try:
        while waiting or engine.live:
            for prompt, output in waiting[:2]:
                assert not isinstance(engine.submit(prompt, output), Refusal)
            waiting = waiting[2:]
            engine.run_pass()
            if engine.counts.passes in cancel:
                engine.cancel(int(engine._ids[0]))
    except Stall:
        pass
    return Recording(Header(pool, policy, chunk), seen)


def by_hand(*observations, pool=SIZES, policy="resident-first"):
    return Recording(Header(pool, policy, CHUNK), list(observations))


def arrives(request, prompt=2, output=2):
    return Change(Event.ARRIVE, request, 0, 0, prompt, 0, prompt + output)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_the_pass_repeats_what_it_recorded_whatever_the_policy(policy):
    recording = recorded(policy, cancel=(3, 5))
    passes = [seen for seen in recording.observations if isinstance(seen, PassEnd)]
    found = replay(recording)
    assert (found.divergence, found.not_compared, found.compared) == (None, "", len(passes))
    assert found.monitor.faults == 0


def test_names_are_the_recordings_own_and_may_be_used_again():
    """Requests a and b live two passes each (prompt 2, output 2); then two others come by the same names."""
    engine_says = recorded("resident-first", requests=((2, 2),) * 2)
    names = {0: "a", 1: "b"}

    def renamed(seen):
        if isinstance(seen, PassEnd):
            return seen._replace(scheduled={names[request]: tokens for request, tokens in seen.scheduled.items()})
        return seen._replace(request=names[seen.request])

    once = [renamed(seen) for seen in engine_says.observations]
    found = replay(by_hand(*once, *once))
    assert found.divergence is None
    assert found.compared == 2 * sum(isinstance(seen, PassEnd) for seen in once)


def first_difference(one, other):
    """The first pass whose observations differ, by a plain walk over two recordings of the same arrivals."""
    number = 1
    for was, does in zip(one.observations, other.observations, strict=False):
        if was != does:
            return number
        number += isinstance(was, PassEnd)
    raise AssertionError("they are the same")


@pytest.mark.parametrize("other", ["helix-published", "swap-first", "vllm-fcfs"])
def test_under_another_policys_name_the_first_pass_that_differs_is_found(other):
    requests = ((3, 5), (6, 2), (2, 6), (4, 4))
    one, two = recorded("resident-first", requests=requests), recorded(other, requests=requests)
    found = replay(Recording(one.header._replace(policy=other), one.observations))
    assert found.divergence is not None
    assert found.divergence.pass_number == first_difference(one, two)
    assert found.compared == found.divergence.pass_number - 1
    assert found.exit_code == 1


GUARDS = [
    (
        [arrives("a", 9, 2), Change(Event.ADMIT, "a", 7, 0)],
        "Guard pages_fit of 'admit a'",
        "fails: it takes 7 pages and 6 can be made available",
    ),
    ([arrives("a"), Change(Event.GROW, "a", 1, 0)], "The lifecycle has no 'grow' of a request that is waiting.", ""),
    (
        [arrives("a"), Change(Event.ADMIT, "a", 1, 0), Change(Event.SUSPEND, "a", 1, 0)],
        "Guard lower_tier of 'suspend a'",
        "holds here: to do something else is the policy's choice",
    ),
    ([arrives("a"), PassEnd(1, {"a": 2}, 6, 2)], "The lifecycle has no 'schedule' of a request that is waiting.", ""),
    ([PassEnd(1, {"b": 2}, 6, 2)], "The lifecycle has no 'schedule' of a request that is not live.", ""),
    ([arrives("a", 9, 9)], "Guard peak_fits_gpu of 'arrive a'", "fails: it needs 9 pages and the GPU has 6"),
]  # fmt: skip


@pytest.mark.parametrize(("observations", "begins", "ends"), GUARDS)
def test_a_divergence_names_the_guard_and_whether_it_held(observations, begins, ends):
    """Pages of 2 tokens: a request of 9 + 9 tokens needs 9 pages (17 computed), 6 there are."""
    if not isinstance(observations[-1], PassEnd):
        observations = [*observations, PassEnd(1, {}, None, None)]
    divergence = replay(by_hand(*observations)).divergence
    assert divergence.pass_number == 1
    assert divergence.guard.startswith(begins)
    assert ends in divergence.guard


def test_a_move_to_the_host_without_room_there_fails_its_guard():
    pool = Pool(6, 1, 2)
    grown = [arrives("a", 3, 5), Change(Event.ADMIT, "a", 2, 0), PassEnd(1, {"a": 3})]
    moved = [Change(Event.SUSPEND, "a", 2, 0), Change(Event.MIGRATE, "a", 0, 2), PassEnd(2, {})]
    divergence = replay(by_hand(*grown, *moved, pool=pool)).divergence
    assert divergence.pass_number == 2
    assert divergence.recorded.startswith("suspend a")
    assert divergence.own.startswith("the pass ends, scheduled a (1)")


def test_a_stall_is_repeated_and_told_in_the_pass_in_which_it_happens():
    """Two requests hold two of four pages each, nobody can grow, and helix-published moves nobody without a host.

    They compute 2 tokens each in the first pass; in the second a prefill and a decode each need a third page.
    """
    recording = recorded("helix-published", Pool(4, 0, 1), requests=((3, 2), (2, 3)), chunk=2)
    found = replay(recording)
    last = max(seen.number for seen in recording.observations if isinstance(seen, PassEnd))
    assert found.divergence is None
    assert found.compared == last
    assert [(v.property, v.pass_number) for v in found.monitor.violations] == [("no-dead-end", last)]
    assert found.exit_code == 1


def test_what_cannot_be_repeated_says_why_and_is_checked_all_the_same():
    good = recorded("resident-first")
    standing = [Standing("z", Phase.WAITING)]
    reasons = {
        "the recording names no policy": good.header._replace(policy=None),
        "'theirs' is no policy of ours": good.header._replace(policy="theirs"),
        "its policy cannot be read": good.header._replace(policy="none.py:rules"),
        "not all sizes are told": good.header._replace(chunk_tokens=None),
        "begins in the middle": good.header._replace(requests=standing),
    }
    for reason, header in reasons.items():
        found = replay(Recording(header, good.observations))
        assert reason in found.not_compared
        assert found.compared == 0
        assert found.monitor.passes == sum(isinstance(seen, PassEnd) for seen in good.observations)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [({"unreadable": [(3, "no")]}, 2), ({"missing": 1}, 2), ({"out_of_order": [4]}, 2), ({"truncated": True}, 0)],
)
def test_damaged_lines_are_no_violations_and_exit_with_2_but_a_cut_end_is_none(wrong, code):
    good = recorded("resident-first")
    found = replay(Recording(good.header, good.observations, **wrong))
    assert found.exit_code == code
    assert found.as_json()["violations"] == 0
    assert bool(found.not_compared) == bool(code)


def test_a_planted_change_anywhere_is_found_in_its_pass():
    """Every operation of a recording, left out in turn: the pass does it, the recording does not have it."""
    good = recorded("resident-first", Pool(4, 1, 2), requests=((4, 3),) * 6)
    numbers = count(1)
    number, tried = next(numbers), 0
    for k, seen in enumerate(good.observations):
        if isinstance(seen, PassEnd):
            number = next(numbers)
        elif seen.event is not Event.ARRIVE:
            left_out = [*good.observations[:k], *good.observations[k + 1 :]]
            assert replay(Recording(good.header, left_out)).divergence.pass_number == number
            tried += 1
    assert tried > 20


def test_json_has_plain_values_only():
    import json

    found = replay(recorded("resident-first"))
    again = json.loads(json.dumps(found.as_json()))
    assert again["compared"] == found.compared == again["passes"]
    assert np.isscalar(again["observations"])
