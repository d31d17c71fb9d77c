"""What an observer of the engine is told adds up to what the engine has: pages by request, tokens, free pages."""

from __future__ import annotations

import numpy as np
import pytest

from stallproof.engine import Engine
from stallproof.lifecycle import Event
from stallproof.observations import Change, PassEnd
from stallproof.outcomes import Refusal


def run(policy, host_pages):
    seen = []
    engine = Engine(policy, 12, host_pages, 2, 4, observer=seen.append)
    lengths = np.random.default_rng(7)
    for _ in range(20):
        engine.submit(int(lengths.integers(1, 12)), int(lengths.integers(1, 12)))
    while engine.live:
        engine.run_pass()
    return engine, seen


@pytest.mark.parametrize("host_pages", [0, 4])
def test_the_events_are_as_many_as_the_engine_counted(host_pages):
    engine, seen = run("resident-first", host_pages)
    count = {event: sum(isinstance(one, Change) and one.event is event for one in seen) for event in Event}
    counts = engine.counts
    assert count[Event.ARRIVE] == count[Event.FINISH] == counts.finished == 20
    assert count[Event.SUSPEND] == counts.suspends
    assert count[Event.RESUME] == counts.resumes
    assert count[Event.RECOMPUTE_PAUSE] == counts.recompute_pauses > 0
    assert sum(isinstance(one, PassEnd) for one in seen) == counts.passes


def test_what_is_free_and_what_is_told_of_each_request_add_up_to_the_pool():
    _, seen = run("resident-first", 4)
    pages = {}
    for one in seen:
        if isinstance(one, Change):
            pages[one.request] = one.gpu_pages, one.host_pages
        else:
            assert one.free_gpu + sum(gpu for gpu, _ in pages.values()) == 12
            assert one.free_host + sum(host for _, host in pages.values()) == 4


def test_every_request_is_told_all_tokens_it_computes():
    """What the passes scheduled of it since its last recompute-pause is its longest length less the last token."""
    _, seen = run("resident-first", 4)
    longest, computed = {}, {}
    for one in seen:
        if isinstance(one, PassEnd):
            for request, tokens in one.scheduled.items():
                computed[request] = computed.get(request, 0) + tokens
        elif one.event is Event.ARRIVE:
            longest[one.request] = one.most_tokens
        elif one.event is Event.RECOMPUTE_PAUSE:
            computed[one.request] = 0
    assert computed == {request: most - 1 for request, most in longest.items()}


def test_a_cancelled_request_is_told_and_a_refused_one_is_not_live():
    seen = []
    engine = Engine("resident-first", 4, 0, 1, 2, observer=seen.append)
    assert isinstance(engine.submit(9, 9), Refusal)
    engine.cancel(engine.submit(1, 2))
    assert [one.event for one in seen] == [Event.ARRIVE, Event.CANCEL]
    assert (seen[1].gpu_pages, seen[1].host_pages) == (0, 0)
