"""Each claim of the monitor: a run that breaks it is caught where it happens, and one that keeps it is not."""

from __future__ import annotations

import pytest

from stallproof.claims import Kind
from stallproof.lifecycle import Event, Phase
from stallproof.monitor.sentences import CHECKED, UNCHECKED
from stallproof.observations import Change, PassEnd, Pool
from stallproof.properties import PROPERTIES
from tests.monitor.watching import arrive, found, two_active, watched

E = Event


def test_the_sentences_are_those_of_the_properties():
    sentences = {claim.name: claim.sentence for claim in PROPERTIES}
    assert {name: sentences[name] for name in CHECKED} == CHECKED


def test_every_claim_is_checked_or_the_reason_is_told():
    assert {claim.name for claim in PROPERTIES if claim.kind is not Kind.SOMETIMES} == CHECKED.keys() | UNCHECKED.keys()
    assert not CHECKED.keys() & UNCHECKED.keys()


def after(*more):
    return [*two_active(), *more]


PAUSE_1 = Change(E.RECOMPUTE_PAUSE, 1, 0, 0, 3, 0, requester=0)
GROW_0 = Change(E.GROW, 0, 3, 0, 3, 2)

KEPT = {
    "a recompute-pause makes room, and the requester grows": after(PAUSE_1, GROW_0, PassEnd(2, {0: 1}, 1, 1)),
    "a suspension, and its return": after(
        Change(E.SUSPEND, 1, 2, 0, 3, 2, requester=0),
        Change(E.MIGRATE, 1, 1, 1, 3, 2, requester=0),
        GROW_0,
        PassEnd(2, {0: 1}, 0, 0),
        Change(E.FINISH, 0, 0, 0),
        PassEnd(3, {}, 3, 0, in_flight=1),
        Change(E.RESUME, 1, 2, 0, 3, 2),
        PassEnd(4, {}, 2, 1, in_flight=1),
    ),
    "finishing in the pass that scheduled it": after(Change(E.FINISH, 0, 0, 0), PassEnd(2, {0: 1}, 2, 1)),
    "a name used again": after(
        Change(E.FINISH, 0, 0, 0), PassEnd(2, {0: 1}, 2, 1), arrive(0), PassEnd(3, {1: 0}, 2, 1)
    ),
    "growth is told with the end of the pass": after(Change(E.FINISH, 1, 0, 0), PassEnd(2, {0: 1}, 1, 1, grown={0: 3})),
    "copies in flight fence pages": after(Change(E.CANCEL, 0, 0, 0), PassEnd(2, {1: 0}, 1, 1, in_flight=1)),
}

BROKEN = {
    "finish while suspended": (
        "legal-transition",
        after(Change(E.SUSPEND, 1, 2, 0), Change(E.FINISH, 1, 0, 0), PassEnd(2, {0: 0}, 2, 1)),
    ),
    "scheduling goes on for a stranger": ("legal-transition", [Change(E.GROW, 7, 1, 0), PassEnd(1, {7: 1}, 3, 1)]),
    "growth of one that is paused": (
        "legal-transition",
        after(PAUSE_1, PassEnd(2, {0: 0}, 0, 1, grown={1: 2})),
    ),
    "growth that takes no page from the free ones": (
        "page-conservation",
        after(Change(E.FINISH, 1, 0, 0), PassEnd(2, {0: 1}, 2, 1, grown={0: 3})),
    ),
    "a page is lost": ("page-conservation", after(Change(E.FINISH, 0, 0, 0), PassEnd(2, {0: 1, 1: 0}, 1, 1))),
    "a page is freed twice": ("page-conservation", after(Change(E.FINISH, 0, 0, 0), PassEnd(2, {0: 1, 1: 0}, 3, 1))),
    "host pages leak": ("page-conservation", after(PassEnd(2, {0: 0, 1: 0}, 0, 0))),
    "pages are kept while recompute-paused": (
        "phase-residency",
        after(Change(E.RECOMPUTE_PAUSE, 1, 1, 0, 3, 0), PassEnd(2, {0: 0}, 1, 1)),
    ),
    "active with a page on the host": (
        "phase-residency",
        after(Change(E.GROW, 0, 2, 1), PassEnd(2, {0: 0, 1: 0}, 0, 0)),
    ),
    "active with fewer pages than tokens": (
        "phase-residency",
        after(Change(E.GROW, 0, 1, 0, 3, 2), PassEnd(2, {1: 0}, 1, 1)),
    ),
    "scheduled and recompute-paused": ("lists-disjoint", after(PAUSE_1, PassEnd(2, {0: 0, 1: 0}, 2, 1))),
    "scheduled and suspended": (
        "lists-disjoint",
        after(Change(E.SUSPEND, 1, 2, 0, requester=0), PassEnd(2, {0: 0, 1: 0}, 0, 1)),
    ),
    "the victim is older": (
        "victim-behind-requester",
        after(Change(E.RECOMPUTE_PAUSE, 0, 0, 0, 3, 0, requester=1), PassEnd(2, {1: 0}, 2, 1)),
    ),
    "suspended twice": (
        "victim-once-per-pass",
        after(
            Change(E.SUSPEND, 1, 2, 0), Change(E.RESUME, 1, 2, 0), Change(E.SUSPEND, 1, 2, 0), PassEnd(2, {0: 0}, 0, 1)
        ),
    ),
    "tokens get fewer": ("tokens-preserved", after(Change(E.RECOMPUTE_PAUSE, 1, 0, 0, 1, 0), PassEnd(2, {0: 0}, 2, 1))),
    "the replay does not start at zero": (
        "replay-from-zero",
        after(Change(E.RECOMPUTE_PAUSE, 1, 0, 0, 3, 2), PassEnd(2, {0: 0}, 2, 1)),
    ),
    "scheduled beyond its pages": ("scheduled-has-pages", after(PassEnd(2, {0: 1, 1: 0}, 0, 1))),
    "scheduled while waiting": ("scheduled-has-pages", after(arrive(2), PassEnd(2, {0: 0, 2: 1}, 0, 1))),
    "it can never fit": ("infeasible-refused", after(arrive(2, 3, 6), PassEnd(2, {0: 0}, 0, 1))),
    "finished twice": (
        "terminal-releases-once",
        after(Change(E.FINISH, 0, 0, 0), Change(E.FINISH, 0, 0, 0), PassEnd(2, {1: 0}, 2, 1)),
    ),
    "cancelled with pages left": ("terminal-releases-once", after(Change(E.CANCEL, 0, 1, 0), PassEnd(2, {1: 0}, 2, 1))),
    "a pass decides nothing": ("no-dead-end", after(PassEnd(2, {}, 0, 1))),
}


@pytest.mark.parametrize("run", KEPT)
def test_nothing_is_found_in_a_run_that_keeps_them(run):
    assert found(KEPT[run]) == []


@pytest.mark.parametrize("run", BROKEN)
def test_the_broken_claim_is_found(run):
    claim, seen = BROKEN[run]
    assert found(seen) == [claim]


def test_without_a_host_tier_nobody_is_suspended():
    pool = Pool(4, 0, 1)
    start = [one._replace(free_host=0) if isinstance(one, PassEnd) else one for one in two_active()]
    assert found([*start, Change(E.SUSPEND, 1, 2, 0)], pool) == ["no-suspension-without-lower-tier"]


def test_a_victim_whose_host_pages_help_nobody_makes_no_room():
    """It has its only page on the host, and no other suspended request holds a GPU page that could move there."""
    seen = after(
        Change(E.SUSPEND, 1, 2, 0, requester=0),
        Change(E.MIGRATE, 1, 1, 1, requester=0),
        Change(E.GROW, 0, 3, 0),
        PassEnd(2, {0: 1}, 0, 0),
        arrive(2),
    )
    only_host = [*seen, Change(E.MIGRATE, 1, 0, 1), Change(E.RECOMPUTE_PAUSE, 1, 0, 0, requester=0)]
    with_gpu = [*seen, Change(E.RECOMPUTE_PAUSE, 1, 0, 0, requester=0)]
    assert found(only_host) == ["victim-makes-room"]
    assert found(with_gpu) == []


def test_a_violation_names_the_pass_the_requests_and_the_sentence():
    (violation,) = watched(after(PAUSE_1, PassEnd(2, {0: 0, 1: 0}, 2, 1))).violations
    assert (violation.pass_number, violation.requests) == (2, (1,))
    first, sentence, *timeline = violation.report.splitlines()
    assert first == "pass 2: lists-disjoint is violated by request 1: scheduled and recompute-paused in one pass"
    assert sentence.strip() == CHECKED["lists-disjoint"]
    assert (
        timeline[-1]
        == "  | pass 2: recompute-pause 1 for 0 (0 GPU, 0 host); scheduled 0 (0), 1 (0); free 2 GPU, 1 host"
    )


def test_after_an_illegal_event_watching_goes_on_from_where_the_engine_stands():
    seen = after(Change(E.RESUME, 1, 2, 0), PassEnd(2, {0: 0, 1: 0}, 0, 1), PassEnd(3, {0: 0, 1: 0}, 0, 1))
    assert found(seen) == ["legal-transition"]


LISTS = {
    "everybody is on one list": ({Phase.ACTIVE: [0, 1], Phase.WAITING: []}, []),
    "a list that is not looked at": ({}, []),
    "twice on the list of active ones": ({Phase.ACTIVE: [0, 1, 0]}, ["lists-disjoint"]),
    "not on the list of active ones": ({Phase.ACTIVE: [0]}, ["lists-disjoint"]),
    "active, and on the list of waiting ones": ({Phase.ACTIVE: [0, 1], Phase.WAITING: [1]}, ["lists-disjoint"]),
    "nobody knows it": ({Phase.ACTIVE: [0, 1, 7]}, ["lists-disjoint"]),
}


@pytest.mark.parametrize("case", LISTS)
def test_the_engines_own_lists_are_those_that_the_changes_led_to(case):
    lists, claims = LISTS[case]
    assert found(after(PassEnd(2, {}, 0, 1, 1, lists))) == claims


def test_a_stale_list_of_active_requests_is_found_in_its_pass_and_told_by_name():
    """Request 1 is recompute-paused, and a copy of the list made before the pass is put back."""
    seen = after(PAUSE_1, GROW_0, PassEnd(2, {0: 1}, 1, 1, lists={Phase.ACTIVE: [0, 1], Phase.WAITING: [1]}))
    (violation,) = watched(seen).violations
    assert (violation.pass_number, violation.requests) == (2, (1,))
    assert (
        "request 1: on the engine's list of active requests, and recompute-paused with 0 GPU pages" in violation.report
    )


def test_what_an_engine_does_not_tell_is_among_what_is_not_checked():
    assert watched([], untold={"victim-makes-room": "not told"}).unchecked["victim-makes-room"] == "not told"
