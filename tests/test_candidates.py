"""Who may be given up, and what it brings: every answer against giving them up for real, on a copy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from situations import Situation, copied, decode, prefill, situations, suspended_decode, tables, waiting
from test_tiers import movable

from stallproof.candidates import (
    available_without_candidates,
    is_candidate,
    newest_candidate,
    newest_helpful_candidate,
    pages_gained,
)
from stallproof.lifecycle import Event, Phase
from stallproof.requests import NOBODY
from stallproof.tiers import apply


@st.composite
def asked(draw):
    """A situation, a requester, and who is scheduled already: active requests only."""
    situation = draw(situations())
    requester = draw(st.integers(0, len(situation.rows) - 1))
    scheduled = [draw(st.integers(0, 1)) if row.phase == Phase.ACTIVE else 0 for row in situation.rows]
    return situation, requester, np.array(scheduled, np.int64)


def candidates(situation, requester, scheduled):
    """The candidates, newest first, as rules.md says it: behind, started, holding pages, not scheduled."""
    return [
        v
        for v, row in reversed(list(enumerate(situation.rows)))
        if v > requester and row.computed > 0 and row.gpu + row.host > 0 and not scheduled[v]
    ]


def without(situation, victims):
    """The tables after all ``victims`` released every page."""
    requests, tiers = copied(*tables(situation))
    for v in victims:
        apply(requests, tiers, int(Event.RECOMPUTE_PAUSE), v, 0)
    return requests, tiers


def gain(situation, requester, v):
    return movable(*without(situation, [v]), requester) - movable(*tables(situation), requester)


@given(asked())
def test_a_candidate_arrived_later_has_started_holds_pages_and_is_not_scheduled(question):
    situation, requester, scheduled = question
    requests, _ = tables(situation)
    found = [v for v in range(len(situation.rows)) if is_candidate(requests, scheduled, requester, v)]
    assert found == candidates(*question)[::-1]


@given(asked())
def test_pages_gained_is_what_releasing_the_victim_really_adds(question):
    situation, requester, _ = question
    requests, tiers = tables(situation)
    for v in candidates(*question):
        assert pages_gained(requests, tiers, requester, v) == gain(situation, requester, v)


@given(asked())
def test_available_without_candidates_is_what_releasing_them_all_really_leaves(question):
    situation, requester, scheduled = question
    requests, tiers = tables(situation)
    expected = movable(*without(situation, candidates(*question)), requester)
    assert available_without_candidates(requests, tiers, scheduled, requester) == expected


@given(asked())
def test_the_newest_candidate_is_the_last_row_that_qualifies(question):
    situation, requester, scheduled = question
    requests, _ = tables(situation)
    for phase in (Phase.ACTIVE, Phase.SUSPENDED):
        found = [v for v in candidates(*question) if situation.rows[v].phase == phase]
        assert newest_candidate(requests, scheduled, requester, int(phase)) == (found[0] if found else NOBODY)


@given(asked())
def test_the_newest_helpful_candidate_makes_room_and_is_active_if_any_active_one_does(question):
    situation, requester, scheduled = question
    requests, tiers = tables(situation)
    helpful = [v for v in candidates(*question) if gain(situation, requester, v) > 0]
    active = [v for v in helpful if situation.rows[v].phase == Phase.ACTIVE]
    expected = (active or helpful or [NOBODY])[0]
    assert newest_helpful_candidate(requests, tiers, scheduled, requester) == expected


@given(asked())
def test_suspended_candidates_help_all_or_none_and_if_none_then_all_together_bring_nothing(question):
    """Why R7 implies R1: see ``model_checking/defects/host_resident_victim.py``."""
    situation, requester, _ = question
    suspended = [v for v in candidates(*question) if situation.rows[v].phase == Phase.SUSPENDED]
    helpful = [gain(situation, requester, v) > 0 for v in suspended]
    assert all(helpful) or not any(helpful)
    if not any(helpful):
        assert movable(*without(situation, suspended), requester) == movable(*tables(situation), requester)


def test_a_victim_on_the_host_alone_helps_only_if_held_pages_wait_for_its_room():
    """Both tiers full: R2's two host pages let R1's two held pages leave. With room on the host they already can."""
    rows = [prefill(2, 2), suspended_decode(2, 0), suspended_decode(0, 2, suspension=2)]
    full, roomy = Situation(4, 2, rows), Situation(4, 4, rows)
    assert pages_gained(*tables(full), 0, 2) == 2
    assert pages_gained(*tables(roomy), 0, 2) == 0


def test_nobody_is_a_candidate_of_the_newest_and_a_waiting_request_of_nobody():
    requests, _ = tables(Situation(4, 2, [decode(1), waiting(2), decode(1)]))
    idle = np.zeros(3, np.int64)
    assert not any(is_candidate(requests, idle, 2, v) for v in range(3))
    assert not any(is_candidate(requests, idle, requester, 1) for requester in range(3))
