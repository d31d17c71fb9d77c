"""Where every watched request stands, kept up to date change by change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stallproof.lifecycle import TRANSITIONS, Event, Phase
from stallproof.observations import Change, PassEnd, Pool, RequestId, Standing

NEXT = {(source, row.event): row.target for row in TRANSITIONS for source in row.sources}
LEADS_TO = {row.event: row.target for row in TRANSITIONS}
"""An event leads to one phase, from wherever it happens. So a watcher knows where it stands after an illegal one."""


class Seen(NamedTuple):
    """A live request. ``arrival``: its place in the order of arrival. The counts are those last told."""

    phase: Phase
    arrival: int
    gpu_pages: int | None
    host_pages: int | None
    tokens: int | None
    most_tokens: int | None


class Table:
    """The live requests as they were last seen, and the sums of their pages.

    ``computed`` is kept beside, since every pass changes it. ``suspended``: in the order of suspension.
    """

    def __init__(self, pool: Pool, standing: Iterable[Standing] = ()) -> None:
        self.pool = pool
        self.live: dict[RequestId, Seen] = {}
        self.computed: dict[RequestId, int] = {}
        self.active: set[RequestId] = set()
        self.suspended: dict[RequestId, None] = {}
        self.held_gpu = 0
        self.gpu_pages = 0
        self.host_pages = 0
        self.untold_gpu = 0
        self.untold_host = 0
        self._arrivals = 0
        standing = list(standing)
        order = sorted((s for s in standing if s.phase is Phase.SUSPENDED), key=lambda s: s.suspension or 0)
        self.suspended = {s.request: None for s in order}
        for s in standing:
            self._arrivals += 1
            self._enter(s.request, Seen(s.phase, self._arrivals, s.gpu_pages, s.host_pages, s.tokens, s.most_tokens))
            if s.computed is not None:
                self.computed[s.request] = s.computed

    def phase_of(self, request: RequestId) -> Phase:
        """New if it is not live: it has not arrived, or is gone."""
        seen = self.live.get(request)
        return Phase.NEW if seen is None else seen.phase

    def apply(self, change: Change) -> None:
        """Take in a change, legal or not."""
        request, event = change.request, change.event
        before = self.live.get(request)
        if before is not None:
            self._leave(request, before)
        phase = LEADS_TO[event]
        if phase is not Phase.SUSPENDED:
            self.suspended.pop(request, None)
        if phase is Phase.FINISHED:
            self.computed.pop(request, None)
            return
        before_counts: tuple[int, int | None, int | None, int | None, int | None]
        if before is None:
            self._arrivals += 1
            before_counts = (self._arrivals, 0, 0, None, None)  # who arrives has no pages, unless told otherwise
        else:
            before_counts = (*before[1:4], self.known_tokens(request, before), before.most_tokens)
        arrival, gpu, host, tokens, most = before_counts
        seen = Seen(
            phase,
            arrival,
            gpu if change.gpu_pages is None else change.gpu_pages,
            host if change.host_pages is None else change.host_pages,
            tokens if change.tokens is None else change.tokens,
            most if change.most_tokens is None else change.most_tokens,
        )
        self._enter(request, seen)
        if change.computed is not None:
            self.computed[request] = change.computed
        elif event is Event.RECOMPUTE_PAUSE or before is None:
            self.computed.pop(request, None)

    def advance(self, end: PassEnd) -> None:
        """The tokens of a pass are computed."""
        computed = self.computed
        for request, tokens in end.scheduled.items():
            if request in computed:
                computed[request] += tokens

    def known_tokens(self, request: RequestId, seen: Seen) -> int | None:
        """Prompt and generated tokens, at least: what is computed is known, whether told or not."""
        if seen.tokens is None:
            return None
        return max(seen.tokens, self.computed.get(request, 0))

    def standing(self) -> list[Standing]:
        """Everybody, in order of arrival, to begin with again."""
        place = {request: k for k, request in enumerate(self.suspended)}
        ordered = sorted(self.live.items(), key=lambda item: item[1].arrival)
        return [
            Standing(
                request,
                seen.phase,
                seen.gpu_pages,
                seen.host_pages,
                self.known_tokens(request, seen),
                self.computed.get(request),
                seen.most_tokens,
                place.get(request),
            )
            for request, seen in ordered
        ]

    def copy(self) -> Table:
        """As it is now. The entries are shared: they are never changed, only replaced."""
        other = Table(self.pool)
        for name, value in vars(self).items():
            setattr(other, name, value.copy() if isinstance(value, dict | set) else value)
        return other

    def signature(self) -> tuple[object, ...]:
        """The same again without a token in between: the same will happen for ever."""
        return (
            frozenset((request, s.phase, s.gpu_pages, s.host_pages) for request, s in self.live.items()),
            frozenset(self.computed.items()),
            tuple(self.suspended),
        )

    def _enter(self, request: RequestId, seen: Seen) -> None:
        self.live[request] = seen
        if seen.phase is Phase.ACTIVE:
            self.active.add(request)
        elif seen.phase is Phase.SUSPENDED:
            self.suspended[request] = None
            self.held_gpu += seen.gpu_pages or 0
        self._count(seen, 1)

    def _leave(self, request: RequestId, seen: Seen) -> None:
        del self.live[request]
        self.active.discard(request)
        if seen.phase is Phase.SUSPENDED:
            self.held_gpu -= seen.gpu_pages or 0
        self._count(seen, -1)

    def _count(self, seen: Seen, sign: int) -> None:
        if seen.gpu_pages is None:
            self.untold_gpu += sign
        else:
            self.gpu_pages += sign * seen.gpu_pages
        if seen.host_pages is None:
            self.untold_host += sign
        else:
            self.host_pages += sign * seen.host_pages
