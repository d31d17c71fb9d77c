"""Two looks at a scheduler: the changes between them are what our own engine says it did, as far as net changes go."""

from __future__ import annotations

import random

import pytest

from stallproof.engine import Engine
from stallproof.lifecycle import Event, Phase
from stallproof.monitor.table import LEADS_TO
from stallproof.observations import Change, PassEnd, Standing
from stallproof.outcomes import Refusal
from stallproof.policies import POLICIES
from stallproof.sweeping import changes_between

E = Event
WAITING, ACTIVE, SUSPENDED, PAUSED = Phase.WAITING, Phase.ACTIVE, Phase.SUSPENDED, Phase.RECOMPUTE_PAUSED


def standing(phase, gpu=0, host=0, tokens=3, computed=0):
    return Standing("a", phase, gpu, host, tokens, computed)


@pytest.mark.parametrize(
    ("was", "now", "tokens", "events"),
    [
        (standing(WAITING), standing(ACTIVE, 2, computed=2), 2, [E.ADMIT]),
        (standing(ACTIVE, 2, computed=2), standing(ACTIVE, 2, computed=3), 1, []),
        (standing(ACTIVE, 2, computed=2), standing(ACTIVE, 3, computed=3), 1, [E.GROW]),
        (standing(ACTIVE, 2, computed=2), standing(SUSPENDED, 2, computed=2), 0, [E.SUSPEND]),
        (standing(ACTIVE, 2, computed=2), standing(SUSPENDED, 1, 1, computed=2), 0, [E.SUSPEND, E.MIGRATE]),
        (standing(SUSPENDED, 1, 1, computed=2), standing(SUSPENDED, 0, 2, computed=2), 0, [E.MIGRATE]),
        (standing(SUSPENDED, 0, 2, computed=2), standing(ACTIVE, 3, computed=3), 1, [E.RESUME]),
        (standing(SUSPENDED, 0, 2, computed=2), standing(PAUSED), 0, [E.RECOMPUTE_PAUSE]),
        (standing(ACTIVE, 2, computed=2), standing(ACTIVE, 1, computed=1), 1, [E.RECOMPUTE_PAUSE, E.ADMIT]),
        (standing(ACTIVE, 2, computed=2), None, 1, [E.FINISH]),
        (standing(WAITING), None, 3, [E.ADMIT, E.FINISH]),
        (standing(SUSPENDED, 1, 1, computed=2), None, 1, [E.RESUME, E.FINISH]),
        (standing(SUSPENDED, 1, 1, computed=2), None, 0, [E.FINISH]),  # illegal, and told
        (standing(ACTIVE, 2), standing(WAITING), 0, [E.ARRIVE]),  # the same
    ],
)
def test_the_shortest_legal_way_is_told(was, now, tokens, events):
    changes = changes_between({"a": was}, {} if now is None else {"a": now}, {"a": tokens} if tokens else {})
    assert [change.event for change in changes] == events


def test_pages_come_back_before_others_are_taken():
    before = {"a": Standing("a", WAITING), "b": Standing("b", ACTIVE, 2, 0)}
    after = {"a": Standing("a", ACTIVE, 2, 0), "b": Standing("b", PAUSED, 0, 0)}
    changes = changes_between(before, after, {"a": 1})
    assert [(change.event, change.request) for change in changes] == [(E.RECOMPUTE_PAUSE, "b"), (E.ADMIT, "a")]


@pytest.mark.parametrize("policy", ["resident-first", "vllm-fcfs", "sglang-retract"])
def test_each_request_ends_a_pass_as_the_engine_tells(policy):
    """200 requests under pressure: the last change of each in a pass leads to the same phase and leaves as many pages.

    Its event may be another: a request that is resumed and then grows is one that is resumed with more pages.
    """
    lengths = random.Random(policy)
    told = []
    engine = Engine(POLICIES[policy], gpu_pages=16, host_pages=6, page_tokens=2, chunk_tokens=4, observer=told.append)
    passes = 0
    left = 200
    while left or engine.live:
        while left and engine.live < 12:
            left -= 1
            assert not isinstance(engine.submit(lengths.randint(1, 12), lengths.randint(1, 12)), Refusal)
        before = {s.request: s for s in engine.standing()}
        told.clear()
        engine.run_pass()
        end = told[-1]
        assert isinstance(end, PassEnd)
        swept = changes_between(before, {s.request: s for s in engine.standing()}, end.scheduled)
        assert last_of_each(swept) == last_of_each(told[:-1])
        passes += 1
    assert passes > 100


def last_of_each(changes):
    last = {change.request: change for change in changes if isinstance(change, Change)}
    return {request: (LEADS_TO[change.event], *change[2:4]) for request, change in last.items()}
