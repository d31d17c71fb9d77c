"""The table of requests: one column a field, one row a request, rows in the order in which they are served.

That is arrival order; with priorities, arrival order within each. "Behind" a request means in a later row.

A request knows ``tokens`` (its prompt and what it has generated so far). It first computes all of
them, chunk by chunk (prefill); the last one yields the next token. From then on it decodes: it
computes the newest token, which yields another, until none is left to generate. So while it
decodes, ``computed == tokens - 1``. A recompute-pause sets ``computed`` to zero and keeps
``tokens``: the replay is the prompt and all generated tokens, from position 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stallproof.compiled import compiled_in_place
from stallproof.lifecycle import Phase

Column = npt.NDArray[Any]

WAITING, ACTIVE, SUSPENDED, RECOMPUTE_PAUSED = (
    int(Phase.WAITING),
    int(Phase.ACTIVE),
    int(Phase.SUSPENDED),
    int(Phase.RECOMPUTE_PAUSED),
)
NEW, FINISHED = int(Phase.NEW), int(Phase.FINISHED)

NOT_SUSPENDED = 0
"""``suspension`` of a request that is not suspended."""

NOBODY = -1
"""The row number that stands for no request."""


class Requests(NamedTuple):
    """Struct of arrays, each of shape (rows,). A row that is new or finished is empty."""

    phase: Column  # int64 a Phase: WAITING, ACTIVE, SUSPENDED, RECOMPUTE_PAUSED; an empty row is NEW or FINISHED
    decoding: Column  # int64 1 once its prefill is complete and has yielded a token
    tokens: Column  # int64 tokens known: prompt plus generated so far
    output_left: Column  # int64 tokens it may still generate; only policies that say so look at it
    computed: Column  # int64 tokens whose keys and values are in its pages
    gpu_pages: Column  # int64 pages it has on the GPU
    host_pages: Column  # int64 pages it has on the host
    suspension: Column  # int64 how late it was suspended: 1 is the oldest suspension, NOT_SUSPENDED none
    copying: Column  # int64 pages that a copy is moving: to the host if suspended, back to the GPU if active
    priority: Column  # int64 0 is served first; rows stand in the order of priority, then of arrival


def new_requests(rows: int) -> Requests:
    """A table of ``rows`` empty rows."""
    return Requests(
        phase=np.zeros(rows, np.int64),
        decoding=np.zeros(rows, np.int64),
        tokens=np.zeros(rows, np.int64),
        output_left=np.zeros(rows, np.int64),
        computed=np.zeros(rows, np.int64),
        gpu_pages=np.zeros(rows, np.int64),
        host_pages=np.zeros(rows, np.int64),
        suspension=np.zeros(rows, np.int64),
        copying=np.zeros(rows, np.int64),
        priority=np.zeros(rows, np.int64),
    )


@compiled_in_place
def live(requests: Requests, r: int) -> bool:
    """Has arrived and not finished."""
    return WAITING <= requests.phase[r] <= RECOMPUTE_PAUSED


@compiled_in_place
def started(requests: Requests, r: int) -> bool:
    """Has computed at least one token since it arrived or was last recompute-paused."""
    return requests.computed[r] > 0


@compiled_in_place
def require_row(requests: Requests, r: int) -> None:
    """Raises IndexError if ``r`` is no row; compiled code would write wherever that leads."""
    if r < 0 or r >= len(requests.phase):
        raise IndexError("a rule answered with a row that the table does not have")


@compiled_in_place
def copy_row(source: Requests, s: int, target: Requests, t: int) -> None:
    """Copy row ``s`` of ``source`` over row ``t`` of ``target``."""
    target.phase[t] = source.phase[s]
    target.decoding[t] = source.decoding[s]
    target.tokens[t] = source.tokens[s]
    target.output_left[t] = source.output_left[s]
    target.computed[t] = source.computed[s]
    target.gpu_pages[t] = source.gpu_pages[s]
    target.host_pages[t] = source.host_pages[s]
    target.suspension[t] = source.suspension[s]
    target.copying[t] = source.copying[s]
    target.priority[t] = source.priority[s]


@compiled_in_place
def copy_requests(source: Requests, target: Requests) -> None:
    """Copy every row of ``source`` over ``target``, which has as many."""
    for r in range(len(source.phase)):
        copy_row(source, r, target, r)


@compiled_in_place
def clear_row(requests: Requests, r: int, phase: int) -> None:
    """Empty row ``r``, leaving it in ``phase`` (new or finished)."""
    requests.phase[r] = phase
    requests.decoding[r] = 0
    requests.tokens[r] = 0
    requests.output_left[r] = 0
    requests.computed[r] = 0
    requests.gpu_pages[r] = 0
    requests.host_pages[r] = 0
    requests.suspension[r] = NOT_SUSPENDED
    requests.copying[r] = 0
    requests.priority[r] = 0
