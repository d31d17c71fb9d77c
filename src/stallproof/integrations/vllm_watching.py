"""What a watched vLLM scheduler does, as observations: no import of vLLM, only the names of its objects.

Its states: waiting, for whatever reason, and not yet preempted is waiting; RUNNING is active; PREEMPTED is
recompute-paused. A turn of a streaming session is a request of its own.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from stallproof.claims import SAMPLE_EVERY, Checks
from stallproof.lifecycle import Event, Phase
from stallproof.monitor import ClaimViolated, Monitor, Violation
from stallproof.observations import Change, PassEnd, Pool, RequestId
from stallproof.recording import Header, Recorder

LOG = logging.getLogger("vllm.stallproof")
"""A child of vLLM's own logger, so that what is said comes out where the engine's log does."""

WAITING_LISTS = ("waiting", "skipped_waiting", "kv_holding_waiting")
"""Of the releases from 0.24 to 0.32, each has two of them."""

NO_REQUESTER = "for whom a request is given up is not told"
_numbers = count(1)


class Settings(NamedTuple):
    """What is asked of a watcher. ``dump``, ``record``: folders, or None."""

    checks: Checks
    on_violation: str = "log"
    dump: str | None = None
    record: str | None = None


def _engine_goes_on(watch: Callable[..., None]) -> Callable[..., None]:
    """Nothing but a violation, where raising is asked for, comes out."""

    @functools.wraps(watch)
    def guarded(self: Watcher, *args: Any) -> None:
        if self.broken:
            return
        try:
            watch(self, *args)
        except ClaimViolated:
            raise
        except Exception as error:
            self.broken = f"{type(error).__name__}: {error}"
            LOG.warning("stallproof: its watcher failed, the engine goes on unwatched: %s", self.broken, exc_info=error)

    return guarded


class Watcher:
    """Tells a monitor what one scheduler does. Of a pass, changes first, then its end; never in the middle of one."""

    def __init__(self, scheduler: Any, settings: Settings) -> None:
        self.broken = ""
        self._scheduler = scheduler
        self._raise = settings.on_violation == "raise"
        self._full = settings.checks is Checks.FULL
        self._passes = 0
        self._unread = 0
        self._changes: list[Change] = []
        self._first: Violation | None = None
        self._moved = True
        self._looked_at: list[Any] = []
        pool, untold = self._probe()
        self._recorder = _recorder(settings.record, pool)
        self.monitor = Monitor(
            pool,
            checks=settings.checks,
            on_violation=self._violated,
            dump=settings.dump,
            recorder=self._recorder,
            untold=untold,
        )
        checks, why = settings.checks.name.lower(), ", ".join(sorted(untold)) or "nothing"
        LOG.info("stallproof: watching %s, %s checks; it does not tell enough for: %s", _name(scheduler), checks, why)

    @classmethod
    def of(cls, scheduler: Any, settings: Settings) -> Watcher | None:
        """A watcher, or None and a line in the log: it is off, or this scheduler cannot be watched."""
        if settings.checks is Checks.OFF:
            return None
        try:
            return cls(scheduler, settings)
        except Exception as error:
            LOG.warning("stallproof: %s is not watched: %s: %s", _name(scheduler), type(error).__name__, error)
            return None

    def _probe(self) -> tuple[Pool, dict[str, str]]:
        """What this scheduler tells. Pages count only where each block is one request's: sharing hides the sums."""
        s = self._scheduler
        for name in ("requests", "running", "waiting"):
            getattr(s, name)  # without these nothing can be watched
        untold = dict.fromkeys(("victim-behind-requester", "victim-makes-room"), NO_REQUESTER)
        self._waiting_lists = [name for name in WAITING_LISTS if hasattr(s, name)]
        groups: Any = getattr(getattr(s, "kv_cache_config", None), "kv_cache_groups", ())
        page_tokens = getattr(getattr(groups[0], "kv_cache_spec", None), "block_size", None) if groups else None
        why = ""
        try:
            manager = s.kv_cache_manager
            self._blocks = manager.coordinator.single_type_managers[0].req_to_blocks
            self._free_blocks = manager.block_pool.get_num_free_blocks
            size = manager.block_pool.num_gpu_blocks - 1  # one is the null block
            if manager.enable_caching:
                why = "with prefix caching requests share blocks"
        except AttributeError as error:
            why = f"this vLLM names its blocks otherwise ({error})"
        if not why and len(groups) != 1:
            why = "blocks of several kinds of layers are counted apart"
        if not why and type(groups[0].kv_cache_spec).__name__ != "FullAttentionSpec":
            why = "its layers give up blocks of a running request"
        if not why and not self._full:
            why = "sampled checks do not follow pages: each growth would cost more than all else"
        if getattr(s, "connector", None) is not None:
            why = why or "a KV connector holds blocks of its own"
        self._counts_pages = not why
        speculative = bool(getattr(s, "num_spec_tokens", 0))
        overlapping = bool(getattr(getattr(s, "scheduler_config", None), "async_scheduling", False))
        self._counts_computed = self._counts_pages and not speculative
        self._counts_tokens = not (speculative or overlapping or "Async" in _name(s))
        if why:
            claims = ("page-conservation", "infeasible-refused", "phase-residency", "scheduled-has-pages")
            untold |= dict.fromkeys((*claims, "replay-from-zero", "terminal-releases-once"), why)
        elif speculative:
            untold |= dict.fromkeys(("scheduled-has-pages", "replay-from-zero"), "rejected drafts are not told")
        if not self._counts_tokens:
            untold["tokens-preserved"] = "with results in flight the known tokens are not certain"
        return Pool(None if why else size, 0, page_tokens), untold

    # -- what happens, noted where it happens -----------------------------------------------------------

    @_engine_goes_on
    def arrived(self, request: Any) -> None:
        """A request was added; a new turn of one that is known already is not news."""
        name = request.request_id
        if self._phase(name) is Phase.NEW and self._scheduler.requests.get(name) is request:
            longest = request.num_tokens + request.max_tokens
            limit = getattr(self._scheduler, "max_model_len", None)
            most = longest if limit is None else min(longest, limit)
            self._note(Event.ARRIVE, request, most_tokens=most)

    @_engine_goes_on
    def preempted(self, request: Any) -> None:
        """A request lost its blocks and will replay."""
        self._note(Event.RECOMPUTE_PAUSE, request)

    @_engine_goes_on
    def turn_ended(self, request: Any) -> None:
        """A turn of a streaming session ended; its blocks stay, so the next turn holds some that are not told."""
        self._note(Event.FINISH, request, gpu_pages=0)

    @_engine_goes_on
    def finished(self, request: Any) -> None:
        """A request is gone. One that does not run was cancelled, or finished by a result that came late."""
        name, status = request.request_id, getattr(request.status, "name", "")
        if self._phase(name) is Phase.NEW:
            return  # it never arrived, or its session's last turn ended before
        active = self._phase(name) is Phase.ACTIVE and status != "FINISHED_ABORTED"
        self._note(Event.FINISH if active else Event.CANCEL, request)

    @_engine_goes_on
    def scheduled(self, output: Any) -> None:
        """A pass is over."""
        self._passes += 1
        self._deliver()
        tokens = output.num_scheduled_tokens
        requests, active = self._scheduler.requests, self.monitor.active
        for name in tokens.keys() - active if self._full or len(tokens) != len(active) or _news(output) else ():
            if (request := requests.get(name)) is not None and request.status.name == "RUNNING":
                if self.monitor.phase_of(name) is Phase.NEW:  # a session's next turn
                    self._note(Event.ARRIVE, request, gpu_pages=None)
                self._note(Event.ADMIT, request, before=tokens[name])
        grown: dict[RequestId, int] | None = None
        if self._counts_pages:
            cached, blocks = output.scheduled_cached_reqs, self._blocks
            grow = zip(cached.req_ids, cached.new_block_ids, strict=True)
            grown = {name: len(blocks[name]) for name, new in grow if new is not None and name in active} or None
        self._unread += bool(tokens)
        in_flight = self._in_flight(bool(tokens))
        self._deliver(PassEnd(self._passes, tokens, self._free(), None, in_flight, self._lists(), grown))

    @_engine_goes_on
    def updated(self, output: Any) -> None:
        """The results of a pass were taken in."""
        if getattr(output, "num_scheduled_tokens", None):
            self._unread = max(0, self._unread - 1)
        self._deliver()

    def close(self) -> None:
        """Say what was seen. The recording is complete."""
        self._changes.clear()
        found = ", ".join(f"{claim} {times}" for claim, times in self.monitor.counts.items()) or "no violation"
        LOG.info("stallproof: %d passes of %s watched: %s", self.monitor.passes, _name(self._scheduler), found)
        if self._recorder is not None:
            self._recorder.close()

    # -- how it is read ---------------------------------------------------------------------------------

    def _note(self, event: Event, request: Any, before: int = 0, **told: int | None) -> None:
        """``before``: tokens of this pass, which vLLM has counted as computed by then."""
        name = request.request_id
        pages: int | None = None
        if self._counts_pages:
            pages = len(self._blocks.get(name, ()))
        computed = request.num_computed_tokens - before if self._counts_computed else None
        if event in (Event.FINISH, Event.CANCEL, Event.ARRIVE):
            computed = 0 if event is Event.ARRIVE and self._counts_computed else None
        fields: dict[str, Any] = {
            "gpu_pages": pages,
            "host_pages": 0 if self._counts_pages else None,
            "tokens": request.num_tokens if self._counts_tokens else None,
            "computed": computed,
        }
        self._changes.append(Change(event, name, **(fields | told)))

    def _phase(self, name: RequestId) -> Phase:
        """As the monitor has it, and what is noted since."""
        phase = self.monitor.phase_of(name)
        for change in self._changes:
            if change.request == name:
                phase = Phase.NEW if change.event in (Event.FINISH, Event.CANCEL) else _AFTER[change.event]
        return phase

    def _free(self) -> int | None:
        return self._free_blocks() if self._counts_pages else None

    def _in_flight(self, scheduled: bool) -> int:
        """What may yet change something without a pass. Where something was scheduled, only what is cheap."""
        s = self._scheduler
        deferred = len(getattr(s, "deferred_frees", ()))
        if scheduled:
            return deferred
        paused = getattr(getattr(s, "_pause_state", None), "name", "UNPAUSED") != "UNPAUSED"
        blocked = sum(r.status.name.startswith("WAITING_FOR") for r in s.requests.values())
        late = sum(r.status.name.startswith("FINISHED") for r in s.requests.values())
        connector = getattr(s, "connector", None) is not None
        return self._unread + blocked + late + paused + deferred + connector

    def _lists(self) -> dict[Phase, list[RequestId]] | None:
        """Its own lists: if their lengths are wrong, now and then, and with full checks whenever something moved."""
        s, looks = self._scheduler, self._passes % SAMPLE_EVERY == 0
        if self._full and (self._moved or s.running != self._looked_at):
            looks, self._moved, self._looked_at = True, False, list(s.running)
        queues = [getattr(s, name) for name in self._waiting_lists]
        waits = sum(len(queue) for queue in queues)
        known = self.monitor.live + sum(_IN_NUMBER.get(change.event, 0) for change in self._changes)
        right = len(s.running) + waits == known
        if right and not looks:
            return None
        lists: dict[Phase, list[RequestId]] = {Phase.ACTIVE: [request.request_id for request in s.running]}
        sessions = (
            any(r.status.name == "WAITING_FOR_STREAMING_REQ" for r in s.requests.values()) if not right else False
        )
        if not right and not sessions:
            lists[Phase.WAITING] = [request.request_id for queue in queues for request in queue]
        return lists

    # -- telling ------------------------------------------------------------------------------------------

    def _deliver(self, end: PassEnd | None = None) -> None:
        """Everything noted, in order; then the first violation of it is raised, if that is asked for."""
        changes, self._changes, self._first = self._changes, [], None
        self._moved = self._moved or bool(changes)
        for change in changes:
            self.monitor.observe(change)
        if end is not None:
            self.monitor.observe(end)
        if self._raise and self._first is not None:
            raise ClaimViolated(self._first)

    def _violated(self, violation: Violation) -> None:
        self._first = self._first or violation
        if not self._raise:
            LOG.error("stallproof: %s", violation.report)


_AFTER = {Event.ARRIVE: Phase.WAITING, Event.ADMIT: Phase.ACTIVE, Event.GROW: Phase.ACTIVE}
_AFTER |= {Event.RECOMPUTE_PAUSE: Phase.RECOMPUTE_PAUSED}
_IN_NUMBER = {Event.ARRIVE: 1, Event.FINISH: -1, Event.CANCEL: -1}


def _news(output: Any) -> bool:
    return bool(output.scheduled_new_reqs or getattr(output.scheduled_cached_reqs, "resumed_req_ids", True))


def _name(scheduler: Any) -> str:
    return type(scheduler).__name__.removeprefix("Watched")


def _recorder(folder: str | None, pool: Pool) -> Recorder | None:
    """A file of its own for each scheduler of each process."""
    if folder is None:
        return None
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Recorder(Path(folder) / f"vllm-{os.getpid()}-{next(_numbers)}.jsonl", Header(pool))
