"""Watches a vLLM scheduler: wraps whichever class was chosen, and tells a monitor what it does.

::

    STALLPROOF=full vllm serve ...        the plug-in, in every process, around the scheduler that vLLM chose
    --scheduler-cls stallproof.integrations.vllm.WatchedScheduler         the same by hand, or WatchedAsyncScheduler

Environment: ``STALLPROOF`` off, sample or full (off if not set); ``STALLPROOF_ON_VIOLATION`` log or raise;
``STALLPROOF_DUMP`` a folder for the files of violations; ``STALLPROOF_RECORD`` a folder for a recording a scheduler.

vLLM's scheduler interface is not public. A name that is missing costs what depends on it, which the log says; whatever
goes wrong here is logged once and the engine goes on.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from stallproof.claims import Checks
from stallproof.integrations.vllm_watching import LOG, Settings, Watcher

if TYPE_CHECKING:
    WatchedScheduler: type[Any]
    WatchedAsyncScheduler: type[Any]

MARK = "_stallproof_watches"


def settings_of_the_environment() -> Settings:
    """What the environment asks for. A value that is not there is told, and then nothing is watched."""
    try:
        checks = Checks.named(os.environ.get("STALLPROOF", "") or "off")
    except Exception as error:
        LOG.warning("stallproof: STALLPROOF: %s Nothing is watched.", error)
        return Settings(Checks.OFF)
    on_violation = os.environ.get("STALLPROOF_ON_VIOLATION", "") or "log"
    if on_violation not in ("log", "raise"):
        LOG.warning("stallproof: STALLPROOF_ON_VIOLATION is %r, not log or raise. It will log.", on_violation)
        on_violation = "log"
    dump, record = (os.environ.get(f"STALLPROOF_{name}") or None for name in ("DUMP", "RECORD"))
    return Settings(checks, on_violation, dump, record)


def register() -> None:
    """The plug-in of the entry point ``vllm.general_plugins``. May be called more than once."""
    if settings_of_the_environment().checks is Checks.OFF:
        return
    try:
        from vllm.config import SchedulerConfig

        chosen = SchedulerConfig.get_scheduler_cls
    except Exception as error:
        LOG.warning("stallproof: this vLLM has no SchedulerConfig.get_scheduler_cls (%s). Nothing is watched.", error)
        return
    if hasattr(chosen, MARK):
        return

    @functools.wraps(chosen)
    def get_scheduler_cls(self: Any) -> Any:
        return watched(chosen(self))

    setattr(get_scheduler_cls, MARK, True)
    SchedulerConfig.get_scheduler_cls = get_scheduler_cls


def watched(scheduler_class: type[Any], settings: Settings | None = None) -> type[Any]:
    """A subclass of a scheduler's class that is watched; the class itself if it is already.

    ``settings``: else those of the environment, when a scheduler is made; without ``STALLPROOF`` that is full checks,
    since whoever names the class wants it watched.
    """
    if hasattr(scheduler_class, MARK):
        return scheduler_class
    missing = [name for name in ("schedule", "update_from_output") if not hasattr(scheduler_class, name)]
    if missing:
        LOG.warning("stallproof: %s has no %s. It is not watched.", scheduler_class.__name__, " and no ".join(missing))
        return scheduler_class

    def begin(scheduler: Any) -> None:
        asked = settings
        if asked is None:
            asked = settings_of_the_environment()
            if not os.environ.get("STALLPROOF"):
                asked = asked._replace(checks=Checks.FULL)
        scheduler._stallproof = Watcher.of(scheduler, asked)

    base: Any = scheduler_class

    class Watched(base):  # type: ignore[misc] # whatever vLLM chose
        """The scheduler, and after each of its steps its watcher."""

        _stallproof: Watcher | None = None  # also of an object that was made without its constructor

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            begin(self)

        def schedule(self, *args: Any, **kwargs: Any) -> Any:
            output = super().schedule(*args, **kwargs)
            if self._stallproof is not None:
                self._stallproof.scheduled(output)
            return output

        def update_from_output(self, *args: Any, **kwargs: Any) -> Any:
            outputs = super().update_from_output(*args, **kwargs)
            if self._stallproof is not None:
                self._stallproof.updated(args[0] if args else kwargs.get("scheduler_output"))
            return outputs

        def add_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            result = super().add_request(request, *args, **kwargs)
            if self._stallproof is not None:
                self._stallproof.arrived(request)
            return result

        def _preempt_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            result = super()._preempt_request(request, *args, **kwargs)
            if self._stallproof is not None:
                self._stallproof.preempted(request)
            return result

        def _handle_stopped_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            finished = super()._handle_stopped_request(request, *args, **kwargs)
            if self._stallproof is not None and not finished:
                self._stallproof.turn_ended(request)
            return finished

        def _free_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            result = super()._free_request(request, *args, **kwargs)
            if self._stallproof is not None:
                self._stallproof.finished(request)
            return result

        def shutdown(self, *args: Any, **kwargs: Any) -> Any:
            if self._stallproof is not None:
                self._stallproof.close()
            return super().shutdown(*args, **kwargs)

    setattr(Watched, MARK, True)
    Watched.__name__ = f"Watched{scheduler_class.__name__}"
    Watched.__qualname__ = Watched.__name__
    Watched.__module__ = __name__
    return Watched


@functools.cache
def _watched_class(name: str) -> type[Any]:
    if name == "WatchedScheduler":
        from vllm.v1.core.sched.scheduler import Scheduler as Chosen
    else:
        from vllm.v1.core.sched.async_scheduler import AsyncScheduler as Chosen
    return watched(Chosen)


def __getattr__(name: str) -> Any:
    if name in ("WatchedScheduler", "WatchedAsyncScheduler"):
        return _watched_class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
