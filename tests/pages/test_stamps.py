"""Stamps tell every token apart, and the content check sees every wrong one."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stallproof.errors import PageError, UsageError
from stallproof.pages import ContentCheck, PageManager, Stamp, decode, stamp
from stallproof.tiers import ADMIT, MIGRATE, RECOMPUTE_PAUSE, RESUME, SUSPEND

from .plans import DEVICES, IDS, plan_of

TOKENS = st.builds(Stamp, st.integers(0, 2**20 - 1), st.integers(0, 2**24 - 1), st.integers(0, 2**16 - 1))
LARGEST = Stamp(2**20 - 1, 2**24 - 1, 2**16 - 1)
NO_STAMP = 0x7FFF_FFFF_FFFF_FFFF


def tensor_stamp(token: Stamp) -> int:
    return int(stamp(*(torch.tensor([number]) for number in token)))


def plain_stamp(token: Stamp) -> int:
    """The layout of ``stamps.py``'s text, in Python's unbounded integers, as an int64."""
    bits = f"0101{token.request:020b}{token.generation:016b}{token.position:024b}"
    assert len(bits) == 64
    product = int(bits, 2) * 0x1E3779B97F4A7C15 % 2**64
    return product - 2**64 if product >= 2**63 else product


@given(TOKENS)
def test_stamps_are_those_of_plain_python(token):
    assert tensor_stamp(token) == plain_stamp(token)


@given(TOKENS)
def test_every_stamp_says_whose_it_is(token):
    """So no two tokens share a stamp, and none is 0."""
    assert decode(plain_stamp(token)) == token
    assert plain_stamp(token) != 0


def test_the_extremes_have_stamps_of_their_own():
    for token in (Stamp(0, 0, 0), LARGEST, LARGEST._replace(request=0), LARGEST._replace(position=0)):
        assert tensor_stamp(token) == plain_stamp(token)
        assert decode(tensor_stamp(token)) == token


@pytest.mark.parametrize("value", [0, NO_STAMP])
def test_what_nobody_wrote_is_no_stamp(value):
    assert decode(value) is None


@given(st.lists(TOKENS, min_size=1, max_size=20))
def test_stamps_are_computed_many_at_once(tokens):
    columns = (torch.tensor(column) for column in zip(*tokens, strict=True))
    assert stamp(*columns).tolist() == [plain_stamp(token) for token in tokens]


# The content check

PAGE_TOKENS = 4
LENGTHS = [5, 8, 1]
GENERATIONS = [0, 2, 1]


@pytest.fixture(params=DEVICES)
def manager(request: pytest.FixtureRequest) -> PageManager:
    """Three requests of 5, 8 and 1 tokens in 2, 2 and 1 pages."""
    manager = PageManager(8, 4, PAGE_TOKENS, device=request.param)
    manager.carry_out(plan_of((ADMIT, 0, 2), (ADMIT, 1, 2), (ADMIT, 2, 1)), IDS)
    return manager


@pytest.fixture
def check(manager: PageManager) -> ContentCheck:
    """All their tokens are stamped."""
    check = ContentCheck(manager)
    check.write(IDS[:3], GENERATIONS, [0, 0, 0], LENGTHS)
    return check


def test_what_was_written_is_what_plain_python_says(manager, check):
    for request, generation, length in zip(IDS, GENERATIONS, LENGTHS, strict=False):
        expected = [plain_stamp(Stamp(request, position, generation)) for position in range(length)]
        assert manager.read(request, 0, length).tolist() == expected
    assert check.verify(IDS[:3], GENERATIONS, LENGTHS) == (14, 0, None)


def test_tokens_written_chunk_by_chunk_are_those_written_at_once(manager, check):
    whole = manager.gpu.storage.clone()
    manager.gpu.storage.zero_()
    check.write(IDS[:3], GENERATIONS, [0, 0, 0], [3, 0, 1])
    check.write(IDS[:2], GENERATIONS[:2], [3, 0], [5, 7])
    check.write(IDS[1:2], GENERATIONS[1:2], [7], [8])
    assert torch.equal(manager.gpu.storage, whole)


@pytest.mark.parametrize(("row", "position"), [(0, 0), (0, 4), (1, 3), (1, 7), (2, 0)])
def test_one_wrong_token_anywhere_is_found_and_named(manager, check, row, position):
    manager.write(IDS[row], position, torch.tensor([0], device=manager.device))
    found = check.verify(IDS[:3], GENERATIONS, LENGTHS)
    assert (found.tokens, found.wrong) == (14, 1)
    assert found.first == (Stamp(IDS[row], position, GENERATIONS[row]), None)
    assert str(found.first) == (
        f"expected request {IDS[row]}, token {position}, generation {GENERATIONS[row]}; found no stamp"
    )


def test_the_first_wrong_token_is_the_first_of_the_ids_given(manager, check):
    manager.write(IDS[0], 1, torch.zeros(2, dtype=torch.int64, device=manager.device))
    manager.write(IDS[1], 6, torch.zeros(1, dtype=torch.int64, device=manager.device))
    found = check.verify([IDS[1], IDS[0]], [2, 0], [8, 5])
    assert found.wrong == 3
    assert found.first is not None
    assert found.first.expected == Stamp(IDS[1], 6, 2)


def test_tokens_after_the_last_are_not_compared(manager, check):
    """Its page 1 holds token 4 alone: what stands behind it is nobody's."""
    manager.write(IDS[0], 5, torch.tensor([7, 7, 7], device=manager.device))
    assert check.verify(IDS[:1], GENERATIONS[:1], [5]).wrong == 0
    assert check.verify(IDS[:1], GENERATIONS[:1], [6]).wrong == 1


def test_two_pages_exchanged_are_all_wrong(manager, check):
    first, second = manager.block_table(IDS[1:2], [8]).indices.tolist()
    manager.gpu.storage[[first, second]] = manager.gpu.storage[[second, first]]
    found = check.verify(IDS[1:2], GENERATIONS[1:2], [8])
    assert found.wrong == 8
    assert found.first == (Stamp(IDS[1], 0, 2), Stamp(IDS[1], PAGE_TOKENS, 2))


def test_a_page_of_zeros_is_all_wrong(manager, check):
    manager.gpu.storage.zero_()
    assert check.verify(IDS[:3], GENERATIONS, LENGTHS).wrong == 14


def test_pages_left_over_from_before_a_recompute_pause_are_seen(manager, check):
    """Request 41 gets the very same pages back; if the replay rewrites only some tokens, the others are wrong."""
    before = manager.block_table(IDS[1:2], [8]).indices.tolist()
    manager.carry_out(plan_of((RECOMPUTE_PAUSE, 1), (ADMIT, 1, 2)), IDS)
    assert sorted(manager.block_table(IDS[1:2], [8]).indices.tolist()) == sorted(before)
    found = check.verify(IDS[1:2], [3], [8])
    assert found.wrong == 8
    assert found.first is not None
    assert found.first.found is not None
    assert (found.first.expected.generation, found.first.found.generation) == (3, 2)
    check.write(IDS[1:2], [3], [0], [5])
    assert check.verify(IDS[1:2], [3], [8]).wrong == 3
    check.write(IDS[1:2], [3], [5], [8])
    assert check.verify(IDS[1:2], [3], [8]).wrong == 0


def test_a_request_that_went_to_the_host_and_back_is_unchanged(manager, check):
    manager.carry_out(plan_of((SUSPEND, 0), (MIGRATE, 0, 1), (SUSPEND, 1), (MIGRATE, 1, 2), (ADMIT, 3, 4)), IDS)
    check.write(IDS[3:], [0], [0], [16])
    with pytest.raises(PageError, match="request 40 has 1 of its pages on the host"):
        check.verify(IDS[:1], GENERATIONS[:1], LENGTHS[:1])
    manager.carry_out(plan_of((SUSPEND, 3), (MIGRATE, 3, 1), (RESUME, 0, 1)), IDS)
    assert check.verify(IDS[:1], GENERATIONS[:1], LENGTHS[:1]).wrong == 0


def test_nothing_is_right_when_nothing_is_asked(check):
    assert check.verify([], [], []) == (0, 0, None)
    check.write([], [], [], [])


@pytest.mark.parametrize(
    ("request_id", "generation", "last", "message"),
    [
        (2**20, 0, 1, "request 1048576 does not fit a stamp"),
        (0, 2**16, 1, "generation 65536 does not fit a stamp"),
        (0, 0, 2**24 + 1, "position 16777216 does not fit a stamp"),
        (-1, 0, 1, "negative"),
    ],
)
def test_numbers_a_stamp_cannot_say_are_refused(check, request_id, generation, last, message):
    with pytest.raises(UsageError, match=message):
        check.write([request_id], [generation], [0], [last])
    with pytest.raises(UsageError, match=message):
        check.verify([request_id], [generation], [last])


@pytest.mark.parametrize("keywords", [{"dtype": torch.int32}, {"token_shape": (2,)}])
def test_only_tokens_of_one_int64_can_be_checked(keywords):
    with pytest.raises(UsageError, match="one int64"):
        ContentCheck(PageManager(1, 1, 1, device="cpu", **keywords))
