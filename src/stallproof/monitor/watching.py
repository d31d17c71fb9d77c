"""The monitor."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from stallproof.claims import SAMPLE_EVERY, Checks
from stallproof.errors import StallproofError, UsageError
from stallproof.lifecycle import Phase
from stallproof.monitor.checking import Found, Pass, after_a_change, at_the_end, before_a_change, before_growth
from stallproof.monitor.sentences import CHECKED, unchecked
from stallproof.monitor.table import Table
from stallproof.monitor.telling import named, stall_report, timeline
from stallproof.observations import Change, Observation, PassEnd, Pool, RequestId, Standing
from stallproof.recording import Header, Recorder

LOG = logging.getLogger("stallproof")
MOST_GONE = 4096
"""Finished requests whose names are remembered, to know a second finish when it is seen."""

MOST_FILES = 8
"""Violations that leave a file: the first ones tell the most, and a disk is not for the rest."""

MOST_REMEMBERED = 100_000
"""Observations in each of the two blocks that are remembered, should passes never end."""

PASSES_TOLD = 8
"""The last passes in a report; its file has more."""

MOST_KEPT = 1000
"""Violations that are kept; all are counted."""


@dataclass(frozen=True)
class Violation:
    """A claim that was found false.

    ``report``: what was seen, and the last passes. ``file``: for ``stallproof explain``, if a folder was given.
    """

    property: str
    sentence: str
    pass_number: int
    requests: tuple[RequestId, ...]
    report: str
    file: Path | None = None

    def __str__(self) -> str:
        return self.report


class ClaimViolated(StallproofError):
    """Raised by ``on_violation="raise"``, once the monitor has taken in what it saw."""

    def __init__(self, violation: Violation) -> None:
        self.violation = violation
        super().__init__(violation.report)


class Monitor:
    """Watches one scheduler.

    ``pool``: its memory in pages; what is None is not told. ``checks``: off, sample (what a pass scheduled and the
    pages are looked at every 16th pass, every change always) or full. ``on_violation``: ``raise``, ``log`` or a
    function of the :class:`Violation`. ``unclaimed``: properties the scheduler does not claim. ``remember_passes``: at
    least so many of the last passes are in a report's file. ``dump``: a folder for these files. ``standing``: live
    requests, if watching begins in the middle. ``recorder``: writes down everything observed. ``untold``: claims that
    cannot be checked of this engine, and why, for ``unchecked``.

    Raises UsageError for checks, a property or an ``on_violation`` that is not there.
    """

    def __init__(
        self,
        pool: Pool = Pool(None, None, None),  # noqa: B008 - immutable
        *,
        checks: Checks | str = Checks.FULL,
        on_violation: str | Callable[[Violation], None] = "raise",
        unclaimed: Iterable[str] = (),
        remember_passes: int = 16,
        dump: str | Path | None = None,
        standing: Iterable[Standing] = (),
        recorder: Recorder | None = None,
        untold: Mapping[str, str] | None = None,
    ) -> None:
        self.checks = Checks.named(checks)
        if on_violation not in ("raise", "log") and not callable(on_violation):
            raise UsageError(f"on_violation is {on_violation!r}", remedy="Give raise, log or a function.")
        self._unclaimed = frozenset(unclaimed)
        known = CHECKED.keys() | unchecked(pool, frozenset()).keys()
        if unknown := self._unclaimed - known:
            raise UsageError(
                f"there is no property '{min(unknown)}'", "unclaimed", f"Choose of {', '.join(sorted(known))}."
            )
        self.violations: list[Violation] = []
        self.counts: dict[str, int] = {}
        self.faults = 0
        self.fault = ""
        self.passes = 0
        self.unchecked = dict(untold or {}) | unchecked(pool, self._unclaimed)
        self._on_violation = on_violation
        self._dump = Path(dump) if dump is not None else None
        self._recorder = recorder
        self._table = Table(pool, standing)
        self._gone: dict[RequestId, None] = {}
        self._pass = Pass()
        self._number = 0
        self._files = 0
        self._last = PassEnd(0, {})
        self._signatures: set[tuple[object, ...]] = set()
        self._stalled = False
        # Two blocks of passes: the one before, which began as its table says, and the one that is filling up.
        self._block, self._in_block = max(1, remember_passes), 0
        self._before: tuple[Table, list[Observation]] = (self._table.copy(), [])
        self._current: tuple[Table, list[Observation]] = (self._table.copy(), [])

    @property
    def live(self) -> int:
        """Requests that have arrived and are not gone."""
        return len(self._table.live)

    @property
    def active(self) -> Set[RequestId]:
        """Those that are active, as far as observed."""
        return self._table.active

    def phase_of(self, request: RequestId) -> Phase:
        """New if it is not live: it has not arrived, or is gone."""
        return self._table.phase_of(request)

    def observe(self, seen: Observation) -> None:
        """Take in what happened. Raises ClaimViolated if told to, and nothing else: own faults are counted."""
        if self.checks is Checks.OFF:
            return
        try:
            if self._recorder is not None:
                self._recorder.write(seen)
            self._remember(seen)
            found = self._changed(seen) if isinstance(seen, Change) else self._ended(seen)
            violations = [self._violation(one) for one in found if one.claim not in self._unclaimed]
            self._turn_over()
        except Exception as error:
            self._own_fault(error)
            return
        for violation in violations:
            self._tell(violation)

    def _changed(self, change: Change) -> list[Found]:
        found = list(before_a_change(change, self._table, self._pass, self._gone))
        self._table.apply(change)
        found += after_a_change(change, self._table)
        self._pass.take(change)
        if self._table.phase_of(change.request) is Phase.NEW:
            self._gone[change.request] = None
            if len(self._gone) > MOST_GONE:
                del self._gone[next(iter(self._gone))]
        else:
            self._gone.pop(change.request, None)
        return found

    def _ended(self, end: PassEnd) -> list[Found]:
        self.passes += 1
        self._number = end.number
        full = self.checks is Checks.FULL
        found: list[Found] = []
        if end.grown:
            found += before_growth(end, self._table)
            for request in self._table.live.keys() & end.grown.keys():
                self._table.grow(request, end.grown[request])
        overfull: Iterable[RequestId] = ()
        if full:
            overfull = self._table.advance(end)
        else:
            self._table.forget_computed()  # not followed from pass to pass: only what a change says
        if full or self.passes % SAMPLE_EVERY == 0:
            found += at_the_end(end, self._table, self._pass, overfull)
        found += self._stall(end)
        self._pass = Pass()
        return found

    def _stall(self, end: PassEnd) -> list[Found]:
        """The first pass after which nothing can change any more, or a circle of passes without a token."""
        if end.scheduled or not self._table.live or end.in_flight:
            self._signatures.clear()
            self._stalled = False
            return []
        if self._pass.arrivals:
            self._signatures.clear()
            self._stalled = False
        claim = ""
        if not self._pass.changes and not end.grown:
            claim = "no-dead-end"
        else:
            signature = self._table.signature()
            if signature in self._signatures:
                claim = "no-livelock"
            self._signatures.add(signature)
        if not claim or self._stalled:
            return []
        self._stalled = True
        again = "it decided nothing" if claim == "no-dead-end" else "the passes go round in a circle"
        headline = f"no pass computes a token any more, unless a request arrives or is cancelled: {again}"
        requests = tuple(sorted(self._table.live, key=lambda r: self._table.live[r].arrival))
        return [Found(claim, requests, "\n".join([headline, *stall_report(end, self._table)]))]

    # -- remembering ---------------------------------------------------------------------------------

    def _remember(self, seen: Observation) -> None:
        if isinstance(seen, PassEnd):
            if self.checks is Checks.SAMPLE and self._is_eventless(seen):
                return  # keeping what it scheduled costs more than all else; its tokens are not followed
            self._in_block += 1
            last, self._last = self._last, seen
            if seen.scheduled == last.scheduled and seen.lists == last.lists:  # in steady decode memory holds them once
                seen = self._last = seen._replace(scheduled=last.scheduled, lists=last.lists)
        self._current[1].append(seen)

    def _is_eventless(self, end: PassEnd) -> bool:
        """It scheduled some and changed nothing, and is none of those looked at."""
        looked_at = (self.passes + 1) % SAMPLE_EVERY == 0
        return not (looked_at or self._pass.changes or end.grown) and bool(end.scheduled)

    def _turn_over(self) -> None:
        if self._in_block >= self._block or len(self._current[1]) >= MOST_REMEMBERED:
            self._before, self._current, self._in_block = self._current, (self._table.copy(), []), 0

    def _last_passes(self) -> list[list[Observation]]:
        passes: list[list[Observation]] = [[]]
        for seen in [*self._before[1], *self._current[1]]:
            passes[-1].append(seen)
            if isinstance(seen, PassEnd):
                passes.append([])
        return [observations for observations in passes if observations][-PASSES_TOLD:]

    # -- telling -------------------------------------------------------------------------------------

    def _violation(self, found: Found) -> Violation:
        self.counts[found.claim] = self.counts.get(found.claim, 0) + 1
        sentence = CHECKED[found.claim]
        last = self._last_passes()
        number = self._number + isinstance(last[-1][-1], Change)
        lines = [f"pass {number}: {found.claim} is violated by {named(found.requests)}: {found.what}", f"  {sentence}"]
        lines += [f"  | {line}" for line in timeline(last)]
        file = None
        if self._dump is not None and self._files < MOST_FILES:
            file = self._write_file(found.claim, number)
            lines.append(f"  stallproof explain {file}")
        violation = Violation(found.claim, sentence, number, found.requests, "\n".join(lines), file)
        if len(self.violations) < MOST_KEPT:
            self.violations.append(violation)
        return violation

    def _write_file(self, claim: str, number: int) -> Path:
        assert self._dump is not None
        self._dump.mkdir(parents=True, exist_ok=True)
        self._files += 1
        path = self._dump / f"stallproof-{claim}-pass-{number}-{self._files}.jsonl"
        table, observations = self._before
        with Recorder(path, Header(table.pool, requests=table.standing())) as recorder:
            for seen in [*observations, *self._current[1]]:
                recorder.write(seen)
        return path

    def _tell(self, violation: Violation) -> None:
        if self._on_violation == "raise":
            raise ClaimViolated(violation)
        if self._on_violation == "log":
            LOG.error("%s", violation.report)
            return
        assert callable(self._on_violation)
        try:
            self._on_violation(violation)
        except Exception as error:
            self._own_fault(error)

    def _own_fault(self, error: Exception) -> None:
        """Counted, and logged once: whatever is wrong with the monitor is no reason to stop the engine."""
        self.faults += 1
        if self.faults == 1:
            self.fault = f"{type(error).__name__}: {error}"
            LOG.warning("the monitor failed, the engine goes on unwatched in part: %s", self.fault, exc_info=error)
