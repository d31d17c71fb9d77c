"""What can be seen of a scheduler from outside, in the words of the lifecycle: for the monitor and for recordings.

A scheduler is seen as changes, in the order in which they happened, and the ends of its passes. A change is an event
of the transition table. What the watched engine does not tell is None, and what depends on it goes unchecked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stallproof.lifecycle import Event, Phase

RequestId = str | int
"""How the engine names a request. A name may be used again once its request has finished."""


class Pool(NamedTuple):
    """The memory that is watched, in pages. ``host_pages`` 0: there is no host tier."""

    gpu_pages: int | None
    host_pages: int | None
    page_tokens: int | None


class Change(NamedTuple):
    """``event`` happened to ``request``, which right after it has what the other fields say.

    ``tokens``: known, prompt and generated. ``computed``: of those, in its pages. ``most_tokens``: the longest it can
    become, told when it arrives. ``requester``: for whom it was given up; None if for itself, or not told.
    """

    event: Event
    request: RequestId
    gpu_pages: int | None = None
    host_pages: int | None = None
    tokens: int | None = None
    computed: int | None = None
    most_tokens: int | None = None
    requester: RequestId | None = None


class PassEnd(NamedTuple):
    """A pass is over, and its tokens are computed.

    ``scheduled``: the tokens computed, by request; an entry is the event *schedule*. ``free_gpu``, ``free_host``:
    pages that nobody has. ``in_flight``: results, copies and loads that may yet change something without a pass.
    ``lists``: the engine's own lists now, by the phase of those who belong there (recompute-paused ones wait); a list
    that was not looked at is missing. ``grown``: GPU pages held now, by request; an entry is the event *grow*, of an
    engine that does not tell when in the pass it happened.
    """

    number: int
    scheduled: Mapping[RequestId, int]
    free_gpu: int | None = None
    free_host: int | None = None
    in_flight: int = 0
    lists: Mapping[Phase, Sequence[RequestId]] | None = None
    grown: Mapping[RequestId, int] | None = None


Observation = Change | PassEnd


class Standing(NamedTuple):
    """Where a live request stands when watching begins in the middle. Given in order of arrival.

    ``suspension``: of the suspended ones, the place in the order in which they were suspended; else None.
    """

    request: RequestId
    phase: Phase
    gpu_pages: int | None = None
    host_pages: int | None = None
    tokens: int | None = None
    computed: int | None = None
    most_tokens: int | None = None
    suspension: int | None = None
