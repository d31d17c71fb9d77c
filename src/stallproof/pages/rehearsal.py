"""Whether operations of a plan can be carried out, found out on page counts before any page is touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from stallproof.errors import PageError
from stallproof.lifecycle import Event
from stallproof.plan import Plan
from stallproof.requests import Column
from stallproof.tiers import ADMIT, CANCEL, FINISH, GROW, MIGRATE, RECOMPUTE_PAUSE, RESUME

TOUCH_PAGES = (ADMIT, GROW, MIGRATE, RESUME, RECOMPUTE_PAUSE, FINISH, CANCEL)
"""The events that take, move or release pages. The others, suspend among them, are bookkeeping elsewhere."""


class Operation(NamedTuple):
    """One operation of a plan, its request named by its stable id."""

    number: int  # its place in the plan
    event: int  # an Event
    request: int  # stable id
    amount: int  # pages taken or moved


def operations_of(plan: Plan, ids: Sequence[int] | Column, first: int, last: int | None) -> list[Operation]:
    """Operations ``first`` to ``last - 1`` (without it, all the rest) that touch pages.

    ``ids[row]`` is the stable id of the request in that row. Raises PageError if the plan has no such range.
    """
    valid = int(plan.operations[0])
    if last is None:
        last = valid
    if not 0 <= first <= last <= valid:
        raise PageError(f"operations {first} to {last} are wanted of a plan that has {valid}; no page was moved")
    numbers = first + np.flatnonzero(np.isin(plan.event[first:last], TOUCH_PAGES))
    columns = (numbers, plan.event[numbers], plan.request[numbers], plan.amount[numbers])
    return [
        Operation(number, event, int(ids[row]), amount)
        for number, event, row, amount in zip(*(column.tolist() for column in columns), strict=True)
    ]


def refuse_impossible(
    operations: Sequence[Operation], pages_of: Callable[[int], tuple[int, int]], free_gpu: int, free_host: int
) -> None:
    """Raise PageError for the first operation that cannot be carried out after those before it.

    ``pages_of(id)``: the (GPU, host) pages a request has before the first operation. The error names the
    operation, the request, the pages wanted and the pages free.
    """
    counts: dict[int, tuple[int, int]] = {}
    for operation in operations:
        _, event, request, amount = operation
        gpu, host = counts[request] if request in counts else pages_of(request)
        problem = _problem(event, amount, gpu, host, free_gpu, free_host)
        if problem:
            number, label = operation.number, Event(event).label
            raise PageError(
                f"operation {number}, {label} of request {request}: {amount} pages wanted, but {problem} "
                f"(free: {free_gpu} GPU, {free_host} host); no page was moved"
            )
        if event in (ADMIT, GROW):
            gpu, free_gpu = gpu + amount, free_gpu - amount
        elif event == MIGRATE:
            gpu, free_gpu = gpu - amount, free_gpu + amount
            host, free_host = host + amount, free_host - amount
        elif event == RESUME:
            gpu, free_gpu = gpu + amount, free_gpu - amount
            host, free_host = host - amount, free_host + amount
        else:
            gpu, free_gpu = 0, free_gpu + gpu
            host, free_host = 0, free_host + host
        counts[request] = (gpu, host)


def _problem(event: int, amount: int, gpu: int, host: int, free_gpu: int, free_host: int) -> str:
    """Why the operation cannot be carried out; empty if it can."""
    if event not in (ADMIT, GROW, MIGRATE, RESUME):
        return ""
    if amount < (0 if event == RESUME else 1):
        return "that is no amount"
    if event == ADMIT and gpu + host > 0:
        return f"it has {gpu} GPU and {host} host pages already"
    if event != ADMIT and gpu + host == 0:
        return "it has no page"
    if event == GROW and host > 0:
        return f"{host} of its pages are on the host"
    if event == MIGRATE and amount > gpu:
        return f"it has {gpu} on the GPU"
    if event == RESUME and amount != host:
        return f"it has {host} on the host, and all must return"
    if event == MIGRATE and amount > free_host:
        return "the host has not so many free"
    if event != MIGRATE and amount > free_gpu:
        return "the GPU has not so many free"
    return ""
