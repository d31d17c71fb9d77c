"""The successors of one level's states, chunk by chunk, computed ahead and handed out in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from stallproof.explorer.model import Model, Successors, UInt64s
from stallproof.explorer.states import StateSet

AHEAD = 2
"""Chunks in flight per thread: enough to keep a thread busy, few enough to bound the memory."""


def expand(
    model: Model, states: StateSet, begin: int, end: int, chunk_rows: int, threads: int, pool: ThreadPoolExecutor
) -> Generator[tuple[int, int, Successors], None, None]:
    """The chunks of states ``begin`` to ``end``, in order: first state, end, successors."""
    chunks = [(at, min(at + chunk_rows, end)) for at in range(begin, end, chunk_rows)]
    if threads == 1 or len(chunks) == 1:
        for first, last in chunks:
            yield first, last, successors_of(model, states.rows[first:last])
        return
    in_flight: deque[tuple[int, int, Future[Successors]]] = deque()
    try:
        for first, last in chunks:
            in_flight.append((first, last, pool.submit(successors_of, model, states.rows[first:last])))
            if len(in_flight) == AHEAD * threads:
                yield _oldest(in_flight)
        while in_flight:
            yield _oldest(in_flight)
    finally:
        for _, _, future in in_flight:
            future.cancel()


def _oldest(in_flight: deque[tuple[int, int, Future[Successors]]]) -> tuple[int, int, Successors]:
    first, last, future = in_flight.popleft()
    return first, last, future.result()


def packed_rows(rows: UInt64s, words: int) -> UInt64s:
    """``rows`` as the compiled code needs them, or a ``ValueError`` for a shape that is not theirs."""
    if rows.ndim != 2 or rows.shape[1] != words:
        raise ValueError(f"rows of shape {rows.shape}: the model says [n, {words}]")
    return np.ascontiguousarray(rows, np.uint64)


def successors_of(model: Model, rows: UInt64s) -> Successors:
    """The model's answer in the types the compiled code needs.

    What breaks the contract is a ``ValueError`` here, where the culprit is still in sight.
    """
    answer = model.successors(rows)
    source = np.ascontiguousarray(answer.source, np.int32)
    label = np.ascontiguousarray(answer.label, np.int32)
    row = packed_rows(answer.row, model.words)
    facts = np.ascontiguousarray(answer.facts, np.uint64)
    if not len(source) == len(label) == len(row) == len(facts):
        raise ValueError("source, label, row and facts of the successors differ in length")
    if len(source) and (source[0] < 0 or source[-1] >= len(rows) or (source[1:] < source[:-1]).any()):
        raise ValueError("the sources of the successors do not ascend within the chunk")
    return Successors(source, label, row, facts, np.asarray(answer.fired, np.int64))
