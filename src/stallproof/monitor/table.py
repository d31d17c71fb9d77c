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

    ``suspended``: in the order of suspension.

    Every pass of decoding adds a token to every active request. So their computed tokens are kept less ``_steady``, the
    tokens that all of them were given in common: a pass costs one addition, and a request is touched where it differs.
    ``_full_at``: who has no room left in its pages once ``_steady`` is there; some entries are out of date.
    """

    def __init__(self, pool: Pool, standing: Iterable[Standing] = ()) -> None:
        self.pool = pool
        self.live: dict[RequestId, Seen] = {}
        self.active: set[RequestId] = set()
        self.suspended: dict[RequestId, None] = {}
        self.held_gpu = 0
        self.gpu_pages = 0
        self.host_pages = 0
        self.untold_gpu = 0
        self.untold_host = 0
        self._arrivals = 0
        self._computed: dict[RequestId, int] = {}
        self._steady = 0
        self._full_at: dict[int, list[RequestId]] = {}
        self._overfull: list[RequestId] = []
        standing = list(standing)
        order = sorted((s for s in standing if s.phase is Phase.SUSPENDED), key=lambda s: s.suspension or 0)
        self.suspended = {s.request: None for s in order}
        for s in standing:
            self._arrivals += 1
            self._enter(s.request, Seen(s.phase, self._arrivals, s.gpu_pages, s.host_pages, s.tokens, s.most_tokens))
            self._set_computed(s.request, s.computed)

    def phase_of(self, request: RequestId) -> Phase:
        """New if it is not live: it has not arrived, or is gone."""
        seen = self.live.get(request)
        return Phase.NEW if seen is None else seen.phase

    def apply(self, change: Change) -> None:
        """Take in a change, legal or not."""
        request, event = change.request, change.event
        before, computed, known = self.live.get(request), change.computed, None
        if before is not None:
            known = self.known_tokens(request, before)
            if computed is None and event is not Event.RECOMPUTE_PAUSE:
                computed = self.computed_of(request)
            self._leave(request, before)
        phase = LEADS_TO[event]
        if phase is not Phase.SUSPENDED:
            self.suspended.pop(request, None)
        if phase is Phase.FINISHED:
            self._computed.pop(request, None)
            return
        before_counts: tuple[int, int | None, int | None, int | None, int | None]
        if before is None:
            self._arrivals += 1
            before_counts = (self._arrivals, 0, 0, None, None)  # who arrives has no pages, unless told otherwise
        else:
            before_counts = (*before[1:4], known, before.most_tokens)
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
        self._set_computed(request, computed)

    def grow(self, request: RequestId, pages: int) -> None:
        """A live request has so many GPU pages now."""
        seen = self.live[request]
        if seen.gpu_pages is None:
            self.untold_gpu -= 1
        self.gpu_pages += pages - (seen.gpu_pages or 0)
        self.live[request] = Seen(seen.phase, seen.arrival, pages, seen.host_pages, seen.tokens, seen.most_tokens)
        if request in self._computed:
            self._watch_room(request)

    def advance(self, end: PassEnd) -> list[RequestId]:
        """The tokens of a pass are computed. Returns the active requests with more of them than their pages hold."""
        scheduled, active, counts = end.scheduled, self.active, self._computed
        common = int(2 * len(scheduled) > len(active))
        self._steady += common
        if not common or set(scheduled.values()) != {1} or scheduled.keys() != active:
            for request, tokens in scheduled.items():
                differs = tokens - common if request in active else tokens
                if differs and request in counts:
                    counts[request] += differs
                    self._watch_room(request)
            for request in active - scheduled.keys() if common else ():
                if request in counts:
                    counts[request] -= 1
                    self._watch_room(request)
        self._overfull += self._full_at.pop(self._steady, ())
        if self._overfull:
            self._overfull = [request for request in dict.fromkeys(self._overfull) if self._room(request) < 0]
        return self._overfull

    def _room(self, request: RequestId) -> int:
        """Tokens that an active request's pages have room for; 0 if that is not told."""
        seen, computed = self.live.get(request), self._computed.get(request)
        pages, page_tokens = seen.gpu_pages if seen is not None else None, self.pool.page_tokens
        if computed is None or pages is None or page_tokens is None or request not in self.active:
            return 0
        return pages * page_tokens - computed - self._steady

    def _watch_room(self, request: RequestId) -> None:
        """Note when an active request's pages have no room any more."""
        room = self._room(request)
        if room < 0:
            self._overfull.append(request)
        else:
            self._full_at.setdefault(self._steady + room + 1, []).append(request)

    def computed_of(self, request: RequestId) -> int | None:
        """Tokens in its pages; None if that is not told."""
        computed = self._computed.get(request)
        return computed + self._steady if computed is not None and request in self.active else computed

    def _set_computed(self, request: RequestId, computed: int | None) -> None:
        if computed is None:
            self._computed.pop(request, None)
        elif request in self.active:
            self._computed[request] = computed - self._steady
            self._watch_room(request)
        else:
            self._computed[request] = computed

    def forget_computed(self) -> None:
        """Tokens are not followed from pass to pass."""
        self._computed.clear()
        self._full_at.clear()

    def known_tokens(self, request: RequestId, seen: Seen) -> int | None:
        """Prompt and generated tokens, at least: what is computed is known, whether told or not."""
        if seen.tokens is None:
            return None
        return max(seen.tokens, self.computed_of(request) or 0)

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
                self.computed_of(request),
                seen.most_tokens,
                place.get(request),
            )
            for request, seen in ordered
        ]

    def copy(self) -> Table:
        """As it is now. The entries are shared: they are never changed, only replaced."""
        other = Table(self.pool)
        for name, value in vars(self).items():
            setattr(other, name, value.copy() if isinstance(value, dict | set | list) else value)
        other._full_at = {steady: requests.copy() for steady, requests in self._full_at.items()}
        return other

    def signature(self) -> tuple[object, ...]:
        """The same again without a token in between: the same will happen for ever."""
        return (
            frozenset((request, s.phase, s.gpu_pages, s.host_pages) for request, s in self.live.items()),
            frozenset((request, self.computed_of(request)) for request in self._computed),
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
