"""The set of states: exact whatever the rows, however often it grows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stallproof.compiled import INTERPRETED
from stallproof.explorer.states import FIRST_ROWS, StateSet, home

GROWN = 3 * FIRST_ROWS if INTERPRETED else 100 * FIRST_ROWS


def entered(states: StateSet, rows: np.ndarray, base: int = 0) -> np.ndarray:
    none = np.zeros(len(rows), np.int32)
    return states.enter(np.ascontiguousarray(rows, np.uint64), none, none, base)


def first_come(rows: np.ndarray) -> list[int]:
    """The ids a dictionary gives out."""
    ids: dict[tuple[int, ...], int] = {}
    return [ids.setdefault(tuple(row), len(ids)) for row in rows.tolist()]


@pytest.mark.parametrize("words", [1, 4])
def test_ids_are_those_of_a_dictionary_through_many_doublings(words):
    """Random rows, each about twice, entered in batches that straddle the doublings."""
    rows = np.random.default_rng(words).integers(0, GROWN // 2, (GROWN, words)).astype(np.uint64)
    rows[:, : words - 1] %= np.uint64(2)
    states = StateSet(words)
    ids = np.concatenate([entered(states, batch) for batch in np.array_split(rows, 7)])
    assert ids.tolist() == first_come(rows)
    assert states.count == ids.max() + 1
    assert len(states.slots) >= 2 * states.count
    assert np.array_equal(states.rows[ids], rows)


@pytest.mark.parametrize("words", [1, 4])
def test_rows_that_share_a_slot_stay_apart(words):
    """Rows chosen so that all begin their search in the same slot of the first table."""
    rows = np.zeros((200_000 if not INTERPRETED else 20_000, words), np.uint64)
    rows[:, -1] = np.arange(len(rows))
    slots = 2 * FIRST_ROWS
    colliding = rows[[home(rows, i) % slots == 5 for i in range(len(rows))]]
    assert len(colliding) >= 5
    states = StateSet(words)
    assert entered(states, colliding).tolist() == list(range(len(colliding)))
    assert entered(states, colliding[::-1]).tolist() == list(range(len(colliding)))[::-1]


@pytest.mark.parametrize("word", range(4))
def test_rows_that_differ_in_one_bit_of_one_word_are_two_states(word):
    rows = np.zeros((65, 4), np.uint64)
    rows[1:, word] = np.uint64(1) << np.arange(64, dtype=np.uint64)
    assert entered(StateSet(4), rows).tolist() == list(range(65))


def test_packed_fields_spread_over_the_table():
    """Small fields in fixed places, as models pack them: short searches, as of a random hash.

    With a table half full the expected search of linear probing for a new row is 2.5 slots.
    """
    side = 4 if INTERPRETED else 8
    fields = np.stack(np.meshgrid(*[np.arange(side)] * 4, indexing="ij"), -1).reshape(-1, 4).astype(np.uint64)
    for packed in (fields, (fields << np.array([0, 13, 32, 51], np.uint64)).sum(1, dtype=np.uint64)[:, None]):
        homes = np.array([home(np.ascontiguousarray(packed), i) for i in range(len(packed))]) % (2 * len(packed))
        taken = np.zeros(2 * len(packed), bool)
        probes = 0
        for slot in homes:
            while taken[slot]:
                slot = (slot + 1) % len(taken)
                probes += 1
            taken[slot] = True
        assert probes / len(packed) < 1.5


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 4))
def test_beyond_the_bound_only_known_states_have_an_id(numbers, bound):
    states = StateSet(1, bound)
    rows = np.array(numbers, np.uint64).reshape(-1, 1)
    ids = first_come(rows)
    assert entered(states, rows).tolist() == [i if i < bound else -1 for i in ids]
    assert states.count == min(bound, len(set(numbers)))
