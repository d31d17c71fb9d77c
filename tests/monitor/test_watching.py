"""The monitor finds nothing in a correct engine, tells a stall in the first pass, and never breaks the engine."""

from __future__ import annotations

import logging

import pytest

from stallproof.claims import SAMPLE_EVERY
from stallproof.engine import Engine
from stallproof.errors import UsageError
from stallproof.lifecycle import Event
from stallproof.monitor import ClaimViolated, Monitor
from stallproof.observations import Change, PassEnd, Pool
from stallproof.outcomes import Stall
from stallproof.recording import read_recording
from tests.monitor.watching import POOL, arrive, drive, found, ignore, two_active, watched

BAD = [*two_active(), Change(Event.RECOMPUTE_PAUSE, 1, 0, 0, 3, 0, requester=0), PassEnd(2, {0: 0, 1: 0}, 2, 1)]


@pytest.mark.parametrize("checks", ["sample", "full"])
@pytest.mark.parametrize("host_pages", [0, 3])
@pytest.mark.parametrize("policy", ["resident-first", "vllm-fcfs"])
def test_nothing_is_found_in_a_policy_that_holds(policy, host_pages, checks):
    monitor = Monitor(Pool(20, host_pages, 4), checks=checks)
    engine = drive(policy, host_pages, monitor.observe)
    assert (monitor.counts, monitor.faults, monitor.live) == ({}, 0, 0)
    assert (monitor.passes, engine.counts.finished) == (engine.counts.passes, 30)
    assert engine.counts.recompute_pauses > 0


def test_a_useless_victim_of_helix_published_is_found_as_often_as_the_engine_finds_it():
    monitor = Monitor(Pool(20, 3, 4), on_violation=ignore)
    engine = drive("helix-published", 3, monitor.observe)
    assert monitor.counts == {"victim-makes-room": engine.counts.useless_victims}
    assert engine.counts.useless_victims > 0


def test_what_a_scheduler_does_not_claim_is_not_told():
    monitor = Monitor(Pool(20, 3, 4), unclaimed=["victim-makes-room"])
    drive("helix-published", 3, monitor.observe)
    assert monitor.violations == []
    assert monitor.unchecked["victim-makes-room"] == "the scheduler does not claim it"


def run_to_the_end(engine):
    while engine.live:
        engine.run_pass()


def test_a_stall_is_told_in_the_pass_in_which_the_engine_stalls():
    """`helix-published`, four pages, no host, three requests of one token that become five long.

    Request 0 finishes alone. Then the others come back with two pages each: all four are taken, and both need a third.
    """
    monitor = Monitor(Pool(4, 0, 1), on_violation=ignore, unclaimed=["victim-makes-room"])
    engine = Engine("helix-published", 4, 0, 1, 2, observer=monitor.observe)
    for _ in range(3):
        engine.submit(1, 4)
    with pytest.raises(Stall):
        run_to_the_end(engine)
    (stall,) = monitor.violations
    assert (stall.property, stall.pass_number) == ("no-dead-end", engine.counts.passes)
    assert "request 1 (active) waits for 1 GPU page, its 3 tokens at once" in stall.report
    assert "request 2 (active) has 2 GPU and 0 host pages" in stall.report
    assert "remedy: more GPU pages (now 4)" in stall.report


def circle(passes):
    """Two requests that give each other up, a pass each, and compute nothing."""
    seen = [arrive(0), arrive(1), Change(Event.ADMIT, 0, 2, 0, 2, 0), PassEnd(1, {0: 1}, 2, 1)]
    for number in range(2, passes + 2):
        out, comes = (0, 1) if number % 2 == 0 else (1, 0)
        seen += [Change(Event.RECOMPUTE_PAUSE, out, 0, 0, 2, 0), Change(Event.ADMIT, comes, 2, 0, 2, 0)]
        seen.append(PassEnd(number, {}, 2, 1))
    return seen


def test_a_circle_of_passes_is_told_when_it_closes():
    """Passes 2 and 3 differ; pass 4 ends as pass 2 did. It is told once."""
    (violation,) = watched(circle(9)).violations
    assert (violation.property, violation.pass_number) == ("no-livelock", 4)


def test_a_token_an_arrival_or_a_copy_in_flight_is_no_stall():
    assert found(circle(2)) == []
    assert found([*two_active(), PassEnd(2, {}, 0, 1, in_flight=1)]) == []
    assert found([*circle(2), arrive(2), *circle(2)[-6:]]) == []


def test_raise_stops_the_engine_after_the_monitor_has_taken_it_in():
    monitor = Monitor(POOL)
    for one in BAD[:-1]:
        monitor.observe(one)
    with pytest.raises(ClaimViolated, match="pass 2: lists-disjoint") as raised:
        monitor.observe(BAD[-1])
    assert raised.value.violation is monitor.violations[0]
    assert monitor.passes == 2


def test_log_logs_the_report(caplog):
    with caplog.at_level(logging.ERROR, "stallproof"):
        monitor = watched(BAD, on_violation="log")
    assert [record.getMessage() for record in caplog.records] == [monitor.violations[0].report]


def test_off_observes_nothing():
    monitor = watched(BAD, checks="off")
    assert (monitor.passes, monitor.violations) == (0, [])


def test_sample_looks_at_every_sixteenth_pass():
    """The lost page is seen in pass 16, not before; what changes is checked at once."""
    wrong = [PassEnd(number, {0: 0, 1: 0}, 1, 1) for number in range(2, 2 * SAMPLE_EVERY)]
    (violation,) = watched([*two_active(), *wrong], checks="sample").violations
    assert (violation.property, violation.pass_number) == ("page-conservation", SAMPLE_EVERY)
    assert found([*two_active(), Change(Event.RESUME, 0, 2, 0)], checks="sample") == ["legal-transition"]


def test_a_fault_of_the_monitors_own_does_not_reach_the_engine(caplog):
    monitor = Monitor(POOL)
    with caplog.at_level(logging.WARNING, "stallproof"):
        monitor.observe(PassEnd(1, None, 4, 1))
        monitor.observe(PassEnd(2, None, 4, 1))
    assert monitor.faults == 2
    assert len(caplog.records) == 1
    assert "the engine goes on" in caplog.records[0].getMessage()


def test_an_error_in_the_users_function_is_counted_and_does_not_reach_the_engine():
    def fail(violation):
        raise RuntimeError("the pager is down")

    monitor = Monitor(POOL, on_violation=fail)
    for one in BAD:
        monitor.observe(one)
    assert (monitor.faults, monitor.fault) == (1, "RuntimeError: the pager is down")
    assert [violation.property for violation in monitor.violations] == ["lists-disjoint"]


def test_an_engine_that_tells_no_pages_is_checked_for_the_rest():
    seen = [
        Change(Event.ARRIVE, "a"),
        Change(Event.ADMIT, "a"),
        PassEnd(1, {"a": 3}),
        Change(Event.RECOMPUTE_PAUSE, "a"),
        PassEnd(2, {"a": 1}),
    ]
    monitor = watched(seen, Pool(None, None, None))
    assert [violation.property for violation in monitor.violations] == ["lists-disjoint"]
    assert monitor.unchecked["page-conservation"] == "the size of the GPU's pool is not told"


def test_a_violation_leaves_a_file_that_begins_where_the_remembered_passes_begin(tmp_path):
    """Twenty good passes, then a bad one; four are remembered. Watching from the file's start finds the same."""
    good = [PassEnd(number, {0: 0, 1: 0}, 0, 1) for number in range(2, 21)]
    bad = [Change(Event.RECOMPUTE_PAUSE, 1, 0, 0, 2, 0, requester=0), PassEnd(21, {0: 0, 1: 0}, 2, 1)]
    monitor = watched([*two_active(), *good, *bad], remember_passes=4, dump=tmp_path)
    (violation,) = monitor.violations
    recording = read_recording(violation.file)
    numbers = [one.number for one in recording.observations if isinstance(one, PassEnd)]
    assert len(numbers) in range(4, 9)
    assert numbers == list(range(numbers[0], 22))
    again = watched(recording.observations, recording.header.pool, standing=recording.header.requests)
    assert [(v.property, v.pass_number, v.requests) for v in again.violations] == [("lists-disjoint", 21, (1,))]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"checks": "all"}, "there are no checks 'all'"),
        ({"on_violation": "ignore"}, "on_violation is 'ignore'"),
        ({"unclaimed": ["no-stall"]}, "there is no property 'no-stall'"),
    ],
)
def test_a_wrong_option_is_told(options, says):
    with pytest.raises(UsageError, match=says):
        Monitor(POOL, **options)


def test_in_the_middle_it_goes_on_from_who_stands_where():
    """A run cut anywhere, and watched from there, ends with the same table as the whole run."""
    seen = []
    drive("resident-first", 3, seen.append, requests=12)
    for cut in range(5, len(seen), 7):
        if not isinstance(seen[cut - 1], PassEnd):
            continue
        first = watched(seen[:cut], Pool(20, 3, 4))
        second = watched(seen[cut:], Pool(20, 3, 4), standing=first._table.standing())
        assert (second.violations, second.live) == ([], 0)
