"""The set of states met: rows stored in order of discovery, found again by hash."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from stallproof.compiled import compiled, compiled_part
from stallproof.explorer.model import Int32s, UInt64s
from stallproof.explorer.result import NO_STATE

FREE = NO_STATE
FIRST_ROWS = 1 << 10
MOST_STATES = 2**31 - 1

LOW_HALF = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
SEED = np.uint64(0x9E3779B97F4A7C15)
LOW_FACTOR = np.uint64(0xC2B2AE3D)
HIGH_FACTOR = np.uint64(0x85EBCA77)


@compiled
def home(rows: UInt64s, i: int) -> np.int64:
    """The hash of row ``i``, not negative.

    Products of two 32-bit halves fit 64 bits: nothing overflows, so nothing warns when interpreted.
    """
    mixed = SEED
    for word in range(rows.shape[1]):
        mixed ^= rows[i, word]
        mixed = ((mixed & LOW_HALF) * LOW_FACTOR) ^ ((mixed >> HALF) * HIGH_FACTOR)
        mixed ^= mixed >> HALF
    return np.int64(mixed & LOW_HALF)


@compiled_part
def same(rows: UInt64s, i: int, others: UInt64s, j: int) -> bool:
    """Whether two rows are equal in every word."""
    for word in range(rows.shape[1]):  # compiled to a plain loop
        if rows[i, word] != others[j, word]:
            return False
    return True


@compiled
def enter(
    found: UInt64s,
    source: Int32s,
    label: Int32s,
    begin: int,
    base: int,
    slots: Int32s,
    rows: UInt64s,
    parent: Int32s,
    parent_label: Int32s,
    count: int,
    bound: int,
    target: Int32s,
) -> tuple[int, int]:
    """Write the id of every row of ``found`` from ``begin`` on to ``target``; new rows get one.

    A new row beyond ``bound`` states gets ``NO_STATE``. Returns where it stopped, which is before
    the end only when the set must grow first, and the number of states.
    """
    mask = len(slots) - 1
    for edge in range(begin, len(found)):
        slot = home(found, edge) & mask
        while slots[slot] != FREE and not same(rows, slots[slot], found, edge):
            slot = (slot + 1) & mask
        if slots[slot] == FREE and count < bound:
            if count == len(rows):
                return edge, count
            for word in range(rows.shape[1]):
                rows[count, word] = found[edge, word]
            parent[count] = base + source[edge]
            parent_label[count] = label[edge]
            slots[slot] = count
            count += 1
        target[edge] = slots[slot]
    return len(found), count


@compiled
def enter_again(slots: Int32s, rows: UInt64s, count: int) -> None:
    """Fill an empty table with the first ``count`` rows, which are all different."""
    mask = len(slots) - 1
    for state in range(count):
        slot = home(rows, state) & mask
        while slots[slot] != FREE:
            slot = (slot + 1) & mask
        slots[slot] = state


class StateSet:
    """Rows in order of discovery, each with the state and the label it was first reached by.

    ``slots`` is an open-addressing table of ids, twice as long as the room for rows.
    """

    def __init__(self, words: int, bound: int | None = None) -> None:
        self.bound = MOST_STATES if bound is None else min(bound, MOST_STATES)
        self.count = 0
        self.rows: UInt64s = np.empty((FIRST_ROWS, words), np.uint64)
        self.parent: Int32s = np.empty(FIRST_ROWS, np.int32)
        self.parent_label: Int32s = np.empty(FIRST_ROWS, np.int32)
        self.slots: Int32s = np.full(2 * FIRST_ROWS, FREE, np.int32)

    def enter(self, found: UInt64s, source: Int32s, label: Int32s, base: int) -> Int32s:
        """The ids (``int32[m]``) of rows reached from ``base + source`` by ``label``, new ones entered."""
        target: Int32s = np.empty(len(found), np.int32)
        done = 0
        while True:
            done, self.count = enter(
                found,
                source,
                label,
                done,
                base,
                self.slots,
                self.rows,
                self.parent,
                self.parent_label,
                self.count,
                self.bound,
                target,
            )
            if done == len(found):
                return target
            self._grow()

    def _grow(self) -> None:
        """Double the room. Chunks still being expanded keep the old rows alive, which stay as they are."""
        room = 2 * len(self.rows)
        self.rows = _longer(self.rows, room)
        self.parent = _longer(self.parent, room)
        self.parent_label = _longer(self.parent_label, room)
        self.slots = np.full(2 * room, FREE, np.int32)
        enter_again(self.slots, self.rows, self.count)


Array = TypeVar("Array", Int32s, UInt64s)


def _longer(array: Array, length: int) -> Array:
    """A copy with room for ``length`` entries along the first axis."""
    longer = np.empty((length, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def number_shared(rows: UInt64s, others: UInt64s) -> int:
    """How many rows are in both sets. Each is ``[states, words]``, its rows all different."""
    states = StateSet(rows.shape[1])
    for each in (rows, others):
        nothing: Int32s = np.zeros(len(each), np.int32)
        ids = states.enter(np.ascontiguousarray(each), nothing, nothing, 0)
    return int((ids < len(rows)).sum())
