"""What an observer is told of our own engine: the operations of a plan, as changes, and the end of the pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from stallproof.lifecycle import Event, Phase
from stallproof.observations import Change, Observation, PassEnd, RequestId, Standing
from stallproof.plan import SELF
from stallproof.requests import Requests
from stallproof.tiers import GPU, HOST
from stallproof.witness import Step


def arrival(request: int, prompt_tokens: int, output_tokens: int) -> Change:
    """A request has arrived."""
    return Change(Event.ARRIVE, request, 0, 0, prompt_tokens, 0, prompt_tokens + output_tokens)


def standing_of(requests: Requests, ids: Sequence[int]) -> list[Standing]:
    """Where the live requests stand, in order of arrival. ``ids``: the request of each row."""
    counts = ("phase", "gpu_pages", "host_pages", "tokens", "computed", "output_left", "suspension")
    rows = zip(ids, *(getattr(requests, name).tolist() for name in counts), strict=True)
    return [
        Standing(request, Phase(phase), gpu, host, tokens, computed, tokens + left, suspension or None)
        for request, phase, gpu, host, tokens, computed, left, suspension in rows
    ]


def observations_of(step: Step, number: int, ids: Sequence[int]) -> Iterator[Observation]:
    """What pass ``number`` did, in the order of its plan. ``ids``: the request of each row."""
    plan, before = step.plan, step.before
    n = int(plan.operations[0])
    pages: dict[int, tuple[int, int]] = {}
    computed: dict[int, int] = {}
    for event, r, amount, requester in zip(*(c[:n].tolist() for c in plan[1:5]), strict=True):
        if event == Event.SCHEDULE:
            continue
        gpu, host = pages.get(r) or (int(before.gpu_pages[r]), int(before.host_pages[r]))
        if event in (Event.ADMIT, Event.GROW):
            gpu += amount
        elif event == Event.MIGRATE:
            gpu, host = gpu - amount, host + amount
        elif event == Event.RESUME:
            gpu, host = gpu + host, 0
        elif event in (Event.RECOMPUTE_PAUSE, Event.FINISH):
            gpu, host = 0, 0
            computed[r] = 0
        pages[r] = gpu, host
        done = computed.get(r, int(before.computed[r]))
        asks = None if requester == SELF else ids[requester]
        yield Change(Event(event), ids[r], gpu, host, int(before.tokens[r]), done, requester=asks)
    scheduled: dict[RequestId, int] = {ids[r]: int(plan.scheduled[r]) for r in np.flatnonzero(plan.scheduled).tolist()}
    yield PassEnd(number, scheduled, int(step.tiers.free[GPU]), int(step.tiers.free[HOST]))
