"""Block tables and slots: where a request's tokens are."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stallproof.errors import PageError
from stallproof.pages import PageManager
from stallproof.tiers import ADMIT, MIGRATE, SUSPEND

from .plans import IDS, plan_of

PAGE_TOKENS = 4


@pytest.fixture
def manager() -> PageManager:
    """Rows 0 and 1 active with 2 and 3 pages, row 2 suspended with one of 2 pages on the host."""
    manager = PageManager(9, 2, PAGE_TOKENS, device="cpu")
    manager.carry_out(plan_of((ADMIT, 0, 2), (ADMIT, 1, 3), (ADMIT, 2, 2), (SUSPEND, 2), (MIGRATE, 2, 1)), IDS)
    return manager


@pytest.mark.parametrize(("tokens", "pages", "last"), [(1, 1, 1), (3, 1, 3), (4, 1, 4), (5, 2, 1), (8, 2, 4)])
def test_last_page_len_is_between_one_and_a_page(manager, tokens, pages, last):
    table = manager.block_table([IDS[0]], [tokens])
    assert (table.indptr.tolist(), table.last_page_len.tolist()) == ([0, pages], [last])
    assert len(table.indices) == pages


def test_block_tables_of_several_requests_stand_one_after_the_other(manager):
    table = manager.block_table([IDS[1], IDS[0]], [10, 8])
    assert [part.dtype for part in table] == [torch.int32] * 3
    assert table.indptr.tolist() == [0, 3, 5]
    assert table.last_page_len.tolist() == [2, 4]
    alone = [manager.block_table([request], [tokens]).indices for request, tokens in ((IDS[1], 10), (IDS[0], 8))]
    assert table.indices.tolist() == torch.cat(alone).tolist()
    assert len(set(table.indices.tolist())) == 5


def test_tokens_read_through_the_block_table_are_those_written_through_slots(manager):
    """FlashInfer's rule: token t of request i is in page indices[indptr[i] + t // page_tokens] at t % page_tokens."""
    manager.write(IDS[1], 0, torch.arange(100, 111))
    table = manager.block_table(IDS[:2], [8, 11])
    start = int(table.indptr[1])
    through_table = [
        int(manager.gpu.storage[table.indices[start + t // PAGE_TOKENS], t % PAGE_TOKENS]) for t in range(11)
    ]
    assert through_table == list(range(100, 111))


def test_a_request_with_pages_on_the_host_has_no_block_table(manager):
    for ask in (manager.block_table, lambda ids, tokens: manager.slots(ids, [0], tokens)):
        with pytest.raises(PageError, match="request 42 has 1 of its pages on the host"):
            ask([IDS[2]], [5])


def test_tokens_beyond_the_pages_are_refused(manager):
    with pytest.raises(PageError, match="request 40 is asked for its first 3 pages, it has 2"):
        manager.block_table([IDS[0]], [9])
    with pytest.raises(PageError, match="request 43 is asked for its first 1 pages, it has 0"):
        manager.write(IDS[3], 0, torch.zeros(1, dtype=torch.int64))


def test_no_token_no_block_table(manager):
    with pytest.raises(PageError, match="request 41 has no token"):
        manager.block_table([IDS[0], IDS[1]], [1, 0])


@pytest.mark.parametrize(("first", "last"), [(3, 2), (-1, 2)])
def test_ranges_that_are_none_are_refused(manager, first, last):
    with pytest.raises(PageError, match="tokens are asked for"):
        manager.slots([IDS[0]], [first], [last])


def test_no_request_has_no_slot(manager):
    assert manager.slots([], [], []).tolist() == []
    assert manager.block_table([], []).indptr.tolist() == [0]


@given(st.data(), st.integers(1, 5), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_slots_are_those_of_a_loop_over_tokens(data, page_tokens, sizes):
    """A request's page p holds its tokens from p * page_tokens on."""
    manager = PageManager(sum(sizes), 0, page_tokens, device="cpu")
    manager.carry_out(plan_of(*((ADMIT, row, pages) for row, pages in enumerate(sizes))), IDS)
    ranges = [
        sorted(data.draw(st.tuples(*[st.integers(0, pages * page_tokens)] * 2), label=f"tokens of {row}"))
        for row, pages in enumerate(sizes)
    ]
    expected = []
    for row, (first, last) in enumerate(ranges):
        pages = manager.block_table([IDS[row]], [sizes[row] * page_tokens]).indices.tolist()
        expected += [pages[t // page_tokens] * page_tokens + t % page_tokens for t in range(first, last)]
    ids = IDS[: len(sizes)]
    assert manager.slots(ids, [first for first, _ in ranges], [last for _, last in ranges]).tolist() == expected


def test_a_batch_writes_and_reads_many_requests_at_once(manager):
    slots = manager.slots(IDS[:2], [1, 2], [4, 5])
    manager.write_tokens(slots, torch.arange(6))
    assert manager.read_tokens(slots).tolist() == [0, 1, 2, 3, 4, 5]
    assert manager.read(IDS[0], 1, 4).tolist() == [0, 1, 2]
    assert manager.read(IDS[1], 2, 5).tolist() == [3, 4, 5]
