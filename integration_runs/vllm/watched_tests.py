"""A pytest plug-in: every vLLM scheduler that a test makes is watched. What was seen is written at the end."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from vllm.v1.core.sched import async_scheduler, scheduler

from stallproof.claims import Checks
from stallproof.integrations import vllm as watching
from stallproof.integrations.vllm_watching import Settings, Watcher

MADE: list[Watcher] = []
SEEN: dict[str, Any] = {"schedulers": 0, "passes": 0, "faults": 0, "violations": {}}


class Kept(Watcher):
    """A watcher that is remembered."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        MADE.append(self)


watching.Watcher = Kept  # type: ignore[misc]
for module, name in ((scheduler, "Scheduler"), (async_scheduler, "AsyncScheduler")):
    setattr(module, name, watching.watched(getattr(module, name), Settings(Checks.FULL)))


@pytest.fixture(autouse=True)
def _seen(request: pytest.FixtureRequest) -> Iterator[None]:
    MADE.clear()
    yield
    for watcher in MADE:
        monitor = watcher.monitor
        SEEN["schedulers"] += 1
        SEEN["passes"] += monitor.passes
        SEEN["faults"] += monitor.faults + bool(watcher.broken)
        for claim in monitor.counts:
            tests = SEEN["violations"].setdefault(claim, [])
            if request.node.name not in tests:
                tests.append(request.node.name)


def pytest_sessionfinish() -> None:
    """Write what was seen."""
    Path(os.environ["WATCHED_TESTS"]).write_text(json.dumps(SEEN))
