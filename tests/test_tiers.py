"""Page counts: what each event does to them, and what is available, against plain re-counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from situations import (
    Row,
    Situation,
    copied,
    counts_of,
    decode,
    prefill,
    replaying,
    rows_of,
    situations,
    suspended_decode,
    tables,
    waiting,
)

from stallproof.lifecycle import TRANSITIONS, Event, IllegalTransition, Phase
from stallproof.requests import NOBODY
from stallproof.tiers import (
    GPU,
    HOST,
    apply,
    available,
    has_lower_tier,
    missing_pages,
    new_tiers,
    oldest_suspension,
    pages_for,
    pages_to_hold,
    peak_pages,
    peak_to_hold,
)

LEGAL = {(row.event, source) for row in TRANSITIONS for source in row.sources}

NEWCOMER, WAITER, DECODE, HELD, REPLAYER = range(5)
FIVE = Situation(10, 4, [Row(), waiting(3, 2), decode(3, 2), suspended_decode(2, 1), replaying(4)])
"""On the GPU 3 locked and 2 held pages, 5 free; on the host 1 held, 3 free."""


def everything(requests, tiers):
    return rows_of(requests), counts_of(tiers)


def movable(requests, tiers, r):
    """Free GPU pages for ``r`` after moving held pages of others, one by one, while the host has room. Brute force."""
    requests, tiers = copied(requests, tiers)
    while True:
        holders = [
            h
            for h in range(len(requests.phase))
            if h != r and requests.phase[h] == Phase.SUSPENDED and requests.gpu_pages[h] > 0
        ]
        if not holders or tiers.free[HOST] == 0:
            return int(tiers.free[GPU])
        apply(requests, tiers, int(Event.MIGRATE), holders[-1], 1)


def assert_pages_add_up(requests, tiers):
    rows = rows_of(requests)
    held = [row for row in rows if row.phase == Phase.SUSPENDED]
    assert tiers.free[GPU] + sum(row.gpu for row in rows) == tiers.capacity[GPU]
    assert tiers.free[HOST] + sum(row.host for row in rows) == tiers.capacity[HOST]
    assert tiers.held.tolist() == [sum(row.gpu for row in held), sum(row.host for row in held)]
    assert all(row.gpu >= 0 and row.host >= 0 for row in rows)
    assert all(free >= 0 for free in tiers.free)


@given(st.integers(0, 300), st.integers(1, 20))
def test_pages_for_is_the_fewest_pages_that_hold_the_tokens(tokens, page_tokens):
    pages = pages_for(tokens, page_tokens)
    assert pages * page_tokens >= tokens
    assert pages == 0 or (pages - 1) * page_tokens < tokens


@given(st.integers(1, 300), st.integers(1, 20), st.integers(0, 9))
def test_recurrent_state_is_so_many_pages_more_for_whoever_has_any_token(tokens, page_tokens, state_pages):
    tiers = new_tiers(9, 0, page_tokens, state_pages=state_pages)
    assert pages_to_hold(tiers, tokens) == pages_for(tokens, page_tokens) + state_pages
    assert pages_to_hold(tiers, 0) == 0
    assert peak_to_hold(tiers, tokens, 3, 1) == peak_pages(tokens, 3, page_tokens, 1) + state_pages


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 9))
def test_peak_is_the_most_pages_over_a_whole_life(prompt, output, page_tokens):
    """Prefill computes the prompt and yields a token; each further token needs the one before it computed."""
    computed, generated, most = prompt, 1, -(-prompt // page_tokens)
    while generated < output:
        computed, generated = computed + 1, generated + 1
        most = max(most, -(-computed // page_tokens))
    assert peak_pages(prompt, output, page_tokens) == most


def test_new_tiers_are_all_free_and_without_host_pages_there_is_no_lower_tier():
    tiers = new_tiers(7, 3, 64)
    assert counts_of(tiers) == [[7, 3], [0, 0]]
    assert tiers.capacity.tolist() == [7, 3]
    assert has_lower_tier(tiers)
    assert not has_lower_tier(new_tiers(7, 0, 64))


@pytest.mark.parametrize(
    ("event", "r", "pages", "row", "counts"),
    [
        (Event.ARRIVE, NEWCOMER, 0, Row(Phase.WAITING), [[5, 3], [2, 1]]),
        (Event.REFUSE, NEWCOMER, 0, Row(Phase.FINISHED), [[5, 3], [2, 1]]),
        (Event.ADMIT, WAITER, 2, Row(Phase.ACTIVE, 0, 3, 2, 0, 2), [[3, 3], [2, 1]]),
        (Event.ADMIT, REPLAYER, 4, Row(Phase.ACTIVE, 0, 4, 1, 0, 4), [[1, 3], [2, 1]]),
        (Event.GROW, DECODE, 1, Row(Phase.ACTIVE, 1, 4, 2, 3, 4), [[4, 3], [2, 1]]),
        (Event.SCHEDULE, DECODE, 1, Row(Phase.ACTIVE, 1, 4, 2, 3, 3), [[5, 3], [2, 1]]),
        # Nothing copied, nothing freed: 3 locked pages become held, as the second suspension.
        (Event.SUSPEND, DECODE, 0, Row(Phase.SUSPENDED, 1, 4, 2, 3, 3, 0, 2), [[5, 3], [5, 1]]),
        (Event.MIGRATE, HELD, 2, Row(Phase.SUSPENDED, 1, 4, 1, 3, 0, 3, 1), [[7, 1], [0, 3]]),
        # Its one host page comes back to the GPU; its three pages are locked again.
        (Event.RESUME, HELD, 1, Row(Phase.ACTIVE, 1, 4, 1, 3, 3), [[4, 4], [0, 0]]),
        # Tokens kept, computed zero: the replay is prompt and generated tokens.
        (Event.RECOMPUTE_PAUSE, DECODE, 0, Row(Phase.RECOMPUTE_PAUSED, 0, 4, 2), [[8, 3], [2, 1]]),
        (Event.RECOMPUTE_PAUSE, HELD, 0, Row(Phase.RECOMPUTE_PAUSED, 0, 4, 1), [[7, 4], [0, 0]]),
        (Event.FINISH, DECODE, 0, Row(Phase.FINISHED, 1, 4, 2, 3), [[8, 3], [2, 1]]),
        (Event.CANCEL, WAITER, 0, Row(Phase.FINISHED, 0, 3, 2), [[5, 3], [2, 1]]),
        (Event.CANCEL, DECODE, 0, Row(Phase.FINISHED, 1, 4, 2, 3), [[8, 3], [2, 1]]),
        (Event.CANCEL, HELD, 0, Row(Phase.FINISHED, 1, 4, 1, 3), [[7, 4], [0, 0]]),
        (Event.CANCEL, REPLAYER, 0, Row(Phase.FINISHED, 0, 4, 1), [[5, 3], [2, 1]]),
    ],
)
def test_an_event_changes_its_own_request_and_the_counts_alone(event, r, pages, row, counts):
    requests, tiers = tables(FIVE)
    apply(requests, tiers, int(event), r, pages)
    assert rows_of(requests) == [row if i == r else old for i, old in enumerate(FIVE.rows)]
    assert counts_of(tiers) == counts
    assert_pages_add_up(requests, tiers)


@pytest.mark.parametrize(
    ("event", "r"), [(event, r) for event in Event for r in range(5) if (event, FIVE.rows[r].phase) not in LEGAL]
)
def test_an_illegal_event_changes_nothing_at_all(event, r):
    requests, tiers = tables(FIVE)
    before = everything(requests, tiers)
    with pytest.raises(IllegalTransition) as caught:
        apply(requests, tiers, int(event), r, 1)
    assert (caught.value.request, caught.value.phase, caught.value.event) == (r, FIVE.rows[r].phase, event)
    assert everything(requests, tiers) == before


events = st.lists(st.tuples(st.sampled_from(Event), st.integers(0, 5), st.integers(0, 8)), max_size=30)


@given(situations(), events)
def test_pages_are_conserved_by_any_legal_events_whose_guards_hold(situation, sequence):
    requests, tiers = tables(situation)
    for event, r, pages in sequence:
        if r >= len(situation.rows) or (event, int(requests.phase[r])) not in LEGAL:
            continue
        if event is Event.RESUME:  # every page comes back, no less
            pages = int(requests.host_pages[r])
        if event in (Event.ADMIT, Event.GROW, Event.RESUME) and pages > tiers.free[GPU]:
            continue
        if event is Event.MIGRATE and pages > min(int(requests.gpu_pages[r]), int(tiers.free[HOST])):
            continue
        others = [row for i, row in enumerate(rows_of(requests)) if i != r]
        apply(requests, tiers, int(event), r, pages)
        assert_pages_add_up(requests, tiers)
        assert [row for i, row in enumerate(rows_of(requests)) if i != r] == others


@given(situations(), st.data())
def test_available_is_what_moving_held_pages_one_by_one_would_free(situation, data):
    requests, tiers = tables(situation)
    r = data.draw(st.integers(0, len(situation.rows) - 1))
    before = everything(requests, tiers)
    assert available(requests, tiers, r) == movable(requests, tiers, r)
    assert everything(requests, tiers) == before


@given(situations(), st.integers(1, 5), st.data())
def test_missing_pages_and_the_pages_it_has_on_the_gpu_hold_every_token(situation, tokens, data):
    requests, tiers = tables(situation)
    r = data.draw(st.integers(0, len(situation.rows) - 1))
    row = situation.rows[r]
    needed = -(-(row.computed + tokens) // situation.page_tokens)
    assert missing_pages(requests, tiers, r, tokens) + row.gpu == needed


@given(situations(), st.data())
def test_the_oldest_suspension_is_the_smallest_number_among_those_with_gpu_pages(situation, data):
    requests, _ = tables(situation)
    but = data.draw(st.integers(-1, len(situation.rows) - 1))
    holders = {
        row.suspension: r
        for r, row in enumerate(situation.rows)
        if row.phase == Phase.SUSPENDED and row.gpu > 0 and r != but
    }
    assert oldest_suspension(requests, but) == (holders[min(holders)] if holders else NOBODY)


def test_suspensions_are_numbered_in_the_order_they_happen():
    requests, tiers = tables(Situation(6, 2, [prefill(2, 1), decode(2), decode(2)]))
    for r in (1, 2, 0):
        apply(requests, tiers, int(Event.SUSPEND), r, 0)
    assert requests.suspension.tolist() == [3, 1, 2]
    assert oldest_suspension(requests, NOBODY) == 1
    assert oldest_suspension(requests, 1) == 2
