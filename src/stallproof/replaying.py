"""Replays a recording: through the monitor, and, where its policy is known, through the pass itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from stallproof.claims import Checks
from stallproof.engine import Engine
from stallproof.errors import EXIT_HOLDS, EXIT_USAGE, EXIT_VIOLATED, PolicyFileError, StallproofError, UnknownPolicy
from stallproof.lifecycle import GUARDS, TRANSITIONS, Event, Phase
from stallproof.monitor import Monitor, Violation
from stallproof.monitor.sentences import CHECKED, UNCHECKED
from stallproof.monitor.table import NEXT, Table
from stallproof.observations import Change, Observation, PassEnd, RequestId
from stallproof.outcomes import Refusal, Stall
from stallproof.policies import Policy, policy_named
from stallproof.recording import COUNTS, Recording

GUARD_OF = {row.event: row.guard for row in TRANSITIONS}
FROM_OUTSIDE = (Event.ARRIVE, Event.REFUSE, Event.CANCEL)
"""What happens to a scheduler; all else it decides itself."""


class Divergence(NamedTuple):
    """The first place at which the pass, given the same arrivals, does something else than was recorded.

    ``recorded`` and ``own``: in words. ``guard``: of the recorded event, and whether it held there.
    """

    pass_number: int
    recorded: str
    own: str
    guard: str


@dataclass
class Replay:
    """What a replay found. ``compared``: passes that the pass itself repeated; ``not_compared``: why none, or ''."""

    recording: Recording
    monitor: Monitor
    compared: int = 0
    not_compared: str = ""
    divergence: Divergence | None = None

    @property
    def exit_code(self) -> int:
        """1 for a violation or a divergence, else 2 if lines are missing or cannot be read, else 0."""
        if self.monitor.counts or self.divergence is not None:
            return EXIT_VIOLATED
        return EXIT_USAGE if _is_damaged(self.recording) else EXIT_HOLDS

    def as_json(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        recording, monitor = self.recording, self.monitor
        return {
            "policy": recording.header.policy,
            "pool": recording.header.pool._asdict(),
            "observations": len(recording.observations),
            "passes": monitor.passes,
            "unreadable": [{"line": line, "reason": reason} for line, reason in recording.unreadable],
            "missing": recording.missing,
            "out_of_order": recording.out_of_order,
            "truncated": recording.truncated,
            "violations": sum(monitor.counts.values()),
            "violated": monitor.counts,
            "first_violations": [_violation_as_json(violation) for violation in monitor.violations[:8]],
            "unchecked": monitor.unchecked,
            "compared": self.compared,
            "not_compared": self.not_compared or None,
            "divergence": None if self.divergence is None else self.divergence._asdict(),
        }


def _violation_as_json(violation: Violation) -> dict[str, Any]:
    return {
        "property": violation.property,
        "pass": violation.pass_number,
        "requests": list(violation.requests),
        "report": violation.report,
    }


def _is_damaged(recording: Recording) -> bool:
    return bool(recording.unreadable or recording.missing or recording.out_of_order)


def replay(recording: Recording) -> Replay:
    """Check a recording against the lifecycle and the claims, and, if its policy is known, against the pass.

    The claims that the policy does not make are left out. A policy ``FILE.py:NAME`` is run.
    """
    policy, why_not = _policy_of(recording)
    unclaimed = policy.unclaimed & (CHECKED.keys() | UNCHECKED.keys()) if policy is not None else frozenset()
    header = recording.header
    monitor = Monitor(header.pool, on_violation=_nothing, unclaimed=unclaimed, standing=header.requests)
    for seen in recording.observations:
        monitor.observe(seen)
    found = Replay(recording, monitor, not_compared=why_not or _not_comparable(recording))
    if policy is not None and not found.not_compared:
        found.compared, found.divergence = _against_the_pass(recording, policy)
    return found


def _nothing(_: Violation) -> None:
    """The monitor keeps what it finds."""


def _policy_of(recording: Recording) -> tuple[Policy | None, str]:
    name = recording.header.policy
    if name is None:
        return None, "the recording names no policy"
    try:
        return policy_named(name), ""
    except UnknownPolicy:
        return None, f"'{name}' is no policy of ours"
    except PolicyFileError as error:
        return None, f"its policy cannot be read: {error}"


def _not_comparable(recording: Recording) -> str:
    """Why the pass cannot repeat it, or ''."""
    header = recording.header
    if None in header.pool or header.chunk_tokens is None:
        return "not all sizes are told"
    if header.requests:
        return "it begins in the middle, with requests that are live already"
    if _is_damaged(recording):
        return "some of its lines are missing or cannot be read"
    arrivals = (seen for seen in recording.observations if isinstance(seen, Change) and seen.event is Event.ARRIVE)
    if any(seen.tokens is None or seen.most_tokens is None or seen.most_tokens <= seen.tokens for seen in arrivals):
        return "not all arrivals tell their prompt and their longest length"
    return ""


# -- against the pass -------------------------------------------------------------------------------


class _Pass:
    """The pass, asked again with the recorded arrivals and cancellations."""

    def __init__(self, recording: Recording, policy: Policy) -> None:
        pool = recording.header.pool
        self._told: list[Observation] = []
        self._engine = Engine(
            policy,
            pool.gpu_pages or 0,
            pool.host_pages or 0,
            pool.page_tokens or 0,
            recording.header.chunk_tokens or 0,
            checks=Checks.OFF,
            observer=self._told.append,
        )
        self._own: dict[RequestId, int] = {}
        self._recorded: dict[int, RequestId] = {}

    def take(self, change: Change) -> str:
        """Someone arrives or is cancelled. Returns what the pass says against it, or ''."""
        request = change.request
        if change.event is Event.CANCEL:
            try:
                self._engine.cancel(self._own[request])
            except (KeyError, StallproofError):
                return f"request {request} is not live"
        elif change.event is Event.ARRIVE:
            tokens, most = change.tokens or 0, change.most_tokens or 0
            outcome = self._engine.submit(tokens, most - tokens)
            if isinstance(outcome, Refusal):
                return f"request {request} is refused: it {outcome}"
            self._own[request], self._recorded[outcome] = outcome, request
        return ""

    def run(self, number: int) -> Iterator[Observation]:
        """What pass ``number`` does, with the recorded names. Raises StallproofError if it fails."""
        self._told.clear()
        try:
            self._engine.run_pass()
        except Stall:
            if not self._told:  # the pass itself failed, where a stall is found after it
                raise
        if not self._told:
            pool = self._engine
            yield PassEnd(number, {}, pool.gpu_pages, pool.host_pages)
        names = self._recorded
        for seen in self._told:
            if isinstance(seen, Change):
                asks = None if seen.requester is None else names[int(seen.requester)]
                yield seen._replace(request=names[int(seen.request)], requester=asks)
            else:
                scheduled = {names[int(request)]: tokens for request, tokens in seen.scheduled.items()}
                yield seen._replace(number=number, scheduled=scheduled)


def _against_the_pass(recording: Recording, policy: Policy) -> tuple[int, Divergence | None]:
    """How many passes are as recorded, and what is not."""
    own, table = _Pass(recording, policy), Table(recording.header.pool)
    changes: list[Change] = []
    compared, number = 0, 1
    for seen in recording.observations:
        if isinstance(seen, Change) and seen.event in FROM_OUTSIDE:
            if against := own.take(seen):
                return compared, Divergence(number, _in_words(seen), against, _guard(seen, table))
            table.apply(seen)
        elif isinstance(seen, Change):
            changes.append(seen)
        else:
            number = seen.number
            try:
                divergence = _compare([*changes, seen], own.run(number), number, table)
            except StallproofError as error:
                first = changes[0] if changes else seen
                divergence = Divergence(number, _in_words(first), f"the pass fails: {error}", "")
            if divergence is not None:
                return compared, divergence
            compared, number, changes = compared + 1, number + 1, []
    return compared, None


def _compare(recorded: list[Observation], own: Iterable[Observation], number: int, table: Table) -> Divergence | None:
    for was, does in zip(recorded, own, strict=False):  # each ends with the end of the pass
        if not _same(was, does):
            return Divergence(number, _in_words(was, does), _in_words(does, was), _guard(was, table, does))
        if isinstance(was, Change):
            table.apply(was)
        else:
            table.advance(was)
    return None


def _same(was: Observation, does: Observation) -> bool:
    """What is not told, agrees."""
    if isinstance(was, Change) != isinstance(does, Change):
        return False
    return all(told is None or told == found for told, found in zip(was, does, strict=True))


def _in_words(seen: Observation, other: Observation | None = None) -> str:
    """The observation; of two ends of a pass, only what is not in the other."""
    if isinstance(seen, Change):
        words = seen.event.label + f" {seen.request}"
        if seen.requester is not None and seen.requester != seen.request:
            words += f" for {seen.requester}"
        told = [(name, getattr(seen, name)) for name in COUNTS]
        counts = [f"{name.replace('_', ' ')} {count}" for name, count in told if count is not None]
        return words + (f" ({', '.join(counts)})" if counts else "")
    before = other.scheduled if isinstance(other, PassEnd) else {}
    scheduled = [f"{r} ({n})" for r, n in seen.scheduled.items() if before.get(r) != n]
    words = "the pass ends, scheduled " + (", ".join(scheduled) or ("the same" if seen.scheduled else "nobody"))
    free = [(seen.free_gpu, "GPU"), (seen.free_host, "host")]
    return words + "".join(f", {count} {tier} pages free" for count, tier in free if count is not None)


def _guard(was: Observation, table: Table, does: Observation | None = None) -> str:
    """The row of the transition table behind what was recorded: allowed or not, and its guard."""
    if isinstance(was, PassEnd):
        mine = does.scheduled if isinstance(does, PassEnd) else {}
        differ = [request for request, tokens in was.scheduled.items() if mine.get(request) != tokens]
        differ.sort(key=lambda request: table.phase_of(request) is Phase.ACTIVE)  # what is not in the table, first
        return " ".join(_of_scheduled(request, table) for request in differ[:1])
    request, event, phase = was.request, was.event, table.phase_of(was.request)
    if (phase, event) not in NEXT:
        return f"The lifecycle has no '{event.label}' of a request that is {_stands(phase)}."
    name = GUARD_OF[event]
    if not name:
        return f"'{event.label}' has no guard: that it does not happen here is the policy's choice."
    holds, why = _holds(was, table)
    told = "holds here: to do something else is the policy's choice" if holds else f"fails: {why}"
    return f"Guard {name} of '{event.label} {request}' ({GUARDS[name]}) {told}."


def _of_scheduled(request: RequestId, table: Table) -> str:
    phase = table.phase_of(request)
    if phase is not Phase.ACTIVE:
        return f"The lifecycle has no 'schedule' of a request that is {_stands(phase)}."
    return f"Guard pages_hold_tokens of 'schedule {request}' ({GUARDS['pages_hold_tokens']}) is where they differ."


def _stands(phase: Phase) -> str:
    return "not live" if phase is Phase.NEW else phase.label


def _holds(was: Change, table: Table) -> tuple[bool, str]:
    """Whether the guard of a recorded event held where it happened, and if not, why."""
    pool, seen = table.pool, table.live.get(was.request)
    gpu, host, page_tokens = pool.gpu_pages or 0, pool.host_pages or 0, pool.page_tokens or 1
    if was.event is Event.ARRIVE:
        peak = -(-((was.most_tokens or 1) - 1) // page_tokens)
        return peak <= gpu, f"it needs {peak} pages and the GPU has {gpu}"
    if was.event is Event.SUSPEND:
        return host > 0, "there is no host tier"
    assert seen is not None  # every other event with a guard is of a live request
    moved = abs((was.gpu_pages or 0) - (seen.gpu_pages or 0))
    free_gpu, free_host = gpu - table.gpu_pages, host - table.host_pages
    if was.event is Event.MIGRATE:
        return moved <= free_host, f"{moved} pages move and the host has {free_host} free"
    held = table.held_gpu - ((seen.gpu_pages or 0) if seen.phase is Phase.SUSPENDED else 0)
    available = free_gpu + min(held, free_host)
    return moved <= available, f"it takes {moved} pages and {available} can be made available"
