"""The request table: rows, and nothing about pages or passes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from situations import Row, Situation, rows_of, tables

from stallproof.lifecycle import Phase
from stallproof.requests import clear_row, copy_requests, copy_row, live, new_requests, started

numbers = st.integers(0, 1 << 40)
any_row = st.builds(Row, st.sampled_from(Phase).map(int), st.integers(0, 1), *[numbers] * 8)


def table_of(rows):
    requests, _ = tables(Situation(0, 0, rows))
    return requests


def test_a_new_table_has_rows_that_never_arrived():
    assert rows_of(new_requests(3)) == [Row(Phase.NEW)] * 3


@pytest.mark.parametrize("phase", Phase)
def test_a_request_is_live_from_its_arrival_until_it_finishes(phase):
    is_live = phase.label in ("waiting", "active", "suspended", "recompute-paused")
    assert live(table_of([Row(int(phase))]), 0) == is_live


def test_a_request_has_started_once_it_computed_a_token():
    requests = table_of([Row(Phase.ACTIVE, computed=1), Row(Phase.RECOMPUTE_PAUSED, tokens=5)])
    assert [bool(started(requests, r)) for r in (0, 1)] == [True, False]


@given(st.lists(any_row, min_size=1, max_size=4), st.data())
def test_copying_a_row_changes_that_row_of_the_target_and_nothing_else(rows, data):
    s, t = (data.draw(st.integers(0, len(rows) - 1)) for _ in range(2))
    source, target = table_of(rows), new_requests(len(rows))
    copy_row(source, s, target, t)
    assert rows_of(source) == rows
    assert rows_of(target) == [rows[s] if r == t else Row() for r in range(len(rows))]


@given(st.lists(any_row, min_size=1, max_size=4))
def test_a_copied_table_is_equal_and_shares_nothing(rows):
    source, target = table_of(rows), new_requests(len(rows))
    copy_requests(source, target)
    assert rows_of(target) == rows
    for column in source:
        column[:] = 1
    assert rows_of(target) == rows


@given(st.lists(any_row, min_size=1, max_size=4), st.sampled_from([Phase.NEW, Phase.FINISHED]), st.data())
def test_a_cleared_row_keeps_its_phase_only_and_its_neighbours_keep_everything(rows, phase, data):
    r = data.draw(st.integers(0, len(rows) - 1))
    requests = table_of(rows)
    clear_row(requests, r, int(phase))
    assert rows_of(requests) == [*rows[:r], Row(phase), *rows[r + 1 :]]
