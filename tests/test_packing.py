"""Packed states: a table comes back closed up, in order, with the counts that follow from it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from situations import Row, Situation, counts_of, packed, rows_of, situations, tables

from stallproof.bounds import MOST, MOST_PRIORITIES
from stallproof.lifecycle import Phase
from stallproof.packing import number_live, unpack
from stallproof.requests import new_requests
from stallproof.tiers import GPU, HOST, abandoned, new_tiers

LIVE = {Phase.WAITING, Phase.ACTIVE, Phase.SUSPENDED, Phase.RECOMPUTE_PAUSED}


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
    again, counts = unpacked(packed(requests, tiers), situation)
    assert rows_of(again) == canonical(rows)
    assert counts_of(counts) == counts_of(tiers)
    assert number_live(again) == sum(row.phase in LIVE for row in rows)


@given(situations())
def test_packing_what_was_unpacked_changes_no_bit(situation):
    words = packed(*tables(situation))
    assert packed(*unpacked(words, situation)).tolist() == words.tolist()


def test_every_column_has_room_for_the_largest_number_the_bounds_allow():
    row = Row(Phase.SUSPENDED, 1, MOST, MOST, MOST, MOST, MOST, 1)
    again, _ = unpacked(packed(*tables(Situation(MOST, MOST, [row]))), Situation(MOST, MOST, [row]))
    assert rows_of(again) == [row]


def test_a_finished_request_leaves_and_the_others_close_up_in_order():
    two, three = Row(Phase.WAITING, 0, 2, 1), Row(Phase.WAITING, 0, 3, 1)
    rows = [Row(Phase.FINISHED, 1, 4, 0, 3), two, Row(Phase.FINISHED), three]
    again, _ = unpacked(packed(*tables(Situation(4, 0, rows))), Situation(4, 0, rows))
    assert rows_of(again) == [two, three, Row(), Row()]


def test_states_that_differ_only_in_how_late_suspensions_were_are_one_state():
    """The order matters (2 before 5, as 1 before 2), the numbers do not; nor does that of a request all on the host."""

    def state(first, second, on_host):
        held = [
            Row(Phase.SUSPENDED, 1, 3, 1, 2, 2, 0, first),
            Row(Phase.SUSPENDED, 1, 3, 1, 2, 1, 1, second),
            Row(Phase.SUSPENDED, 1, 2, 1, 1, 0, 1, on_host),
        ]
        return packed(*tables(Situation(4, 4, held))).tolist()

    assert state(1, 2, 3) == state(2, 5, 4) == state(3, 9, 1)
    assert state(1, 2, 3) != state(2, 1, 3)


@given(st.lists(st.integers(0, MOST_PRIORITIES - 1), min_size=1, max_size=5))
def test_requests_stand_in_order_of_priority_and_within_one_in_order_of_arrival(priorities):
    """Python's sort is stable; a prompt's length tells the requests apart."""
    rows = [Row(Phase.WAITING, 0, k + 1, 1, priority=priority) for k, priority in enumerate(priorities)]
    again, _ = unpacked(packed(*tables(Situation(9, 0, rows))), Situation(9, 0, rows))
    assert rows_of(again) == sorted(rows, key=lambda row: row.priority)


def test_fenced_pages_come_back_with_those_of_requests_that_have_gone():
    """9 GPU pages: 2 of R0, 3 of R1, 1 copied out for R0, 2 abandoned. 6 on the host: 1 of R0, 3 copied in for R1."""
    leaving = Row(Phase.SUSPENDED, 1, 4, 1, 3, 2, 1, 1, copying=1)
    loading = Row(Phase.ACTIVE, 1, 4, 1, 3, 3, 0, copying=3)
    situation = Situation(9, 6, [leaving, loading])
    requests, counts = tables(situation)
    tiers = counts._replace(copies_take_time=True)
    tiers.fenced[:] = 1 + 2, 3
    tiers.free[:] -= tiers.fenced
    words = packed(requests, tiers)
    assert len(words) == 3
    again, back = new_requests(2), new_tiers(9, 6, 1, True)
    unpack(words, again, back)
    assert rows_of(again) == [leaving, loading]
    assert [back.free.tolist(), back.fenced.tolist()] == [[9 - 5 - 3, 6 - 1 - 3], [3, 3]]
    assert [abandoned(again, back, tier) for tier in (GPU, HOST)] == [2, 0]
