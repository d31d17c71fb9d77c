"""Runs the stand-alone schedulers under the watcher: ``python -m integration_runs.vllm pressure|planted|cost``."""

from __future__ import annotations

import gc
import logging
import os
import sys
from functools import partial
from multiprocessing import get_context
from random import random
from statistics import median
from time import perf_counter
from typing import Any

from integration_runs.vllm import http_server, own_tests, whole_engine
from integration_runs.vllm.standing_alone import request_of, run_pass, scheduler_of, stale
from stallproof.claims import Checks
from stallproof.integrations.vllm import watched
from stallproof.integrations.vllm_watching import LOG, Settings


def chosen(name: str) -> type[Any]:
    """vLLM's own class."""
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.scheduler import Scheduler

    return AsyncScheduler if name == "AsyncScheduler" else Scheduler


def pressure(cls: type[Any]) -> tuple[list[Any], Any]:
    """Four requests of 20 + 40 tokens over 8 blocks of 16. Returns what was decided, and the scheduler."""
    scheduler = scheduler_of(cls, gpu_pages=8)
    for number in range(4):
        scheduler.add_request(request_of(number, 20, 40))
    decided = []
    for _ in range(200):
        if not scheduler.has_unfinished_requests():
            break
        output = run_pass(scheduler)
        decided.append((dict(output.num_scheduled_tokens), sorted(output.preempted_req_ids or ())))
    scheduler.shutdown()
    return decided, scheduler


def show_pressure() -> int:
    """With and without the watcher: the same decisions; and what the watcher saw."""
    wrong = 0
    for name in ("Scheduler", "AsyncScheduler"):
        settings = Settings(Checks.FULL, record=os.environ.get("STALLPROOF_RECORD"))
        bare, _ = pressure(chosen(name))
        seen, scheduler = pressure(watched(chosen(name), settings))
        monitor = scheduler._stallproof.monitor
        preempted = sum(len(names) for _, names in seen)
        same = "the same passes as without the watcher" if bare == seen else "OTHER PASSES THAN WITHOUT THE WATCHER"
        found = sum(monitor.counts.values())
        faults = monitor.faults + bool(scheduler._stallproof.broken)
        print(f"{name}: {len(seen)} passes, {preempted} preemptions, {same}, {found} violations, {faults} faults")
        wrong += found + faults + (bare != seen)
    return wrong


def show_planted() -> int:
    """The stale running list, caught in its pass."""
    settings = Settings(Checks.FULL, "raise", record=os.environ.get("STALLPROOF_RECORD"))
    try:
        pressure(watched(stale(chosen("Scheduler")), settings))
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        return 0
    print("NOT CAUGHT")
    return 1


def show_cost(rounds: int = 15, blocks: int = 8) -> int:
    """What checks add to schedule() and update_from_output() in steady decode: medians of interleaved runs.

    Each kind runs in a process of its own, as in a server: two classes that share vLLM's code in one process spoil each
    other's inline caches, which is worth some per cent. One process at a time runs a block of passes. "alone again" is
    a second scheduler without a watcher: what it adds is noise. "Its calls": the time inside the watcher's calls alone.
    """
    chosen("Scheduler")  # imported before the processes are forked
    kinds = {"alone": Checks.OFF, "alone again": Checks.OFF, "sample": Checks.SAMPLE, "full": Checks.FULL}
    print("running | a pass alone | alone again adds | sample adds | its calls | full adds | its calls", flush=True)
    for running in (128, 1024):
        alone, added = [], []
        for _ in range(rounds):
            workers = {kind: _Worker(running, checks) for kind, checks in kinds.items()}
            spent: dict[str, list[float]] = {kind: [] for kind in kinds}
            for _ in range(blocks):
                for kind in sorted(kinds, key=lambda _: random()):
                    spent[kind].append(workers[kind].block())
            inside = {kind: worker.stop() for kind, worker in workers.items()}
            medians = {kind: median(seconds) for kind, seconds in spent.items()}
            base = medians["alone"]
            alone.append(base)
            shares = [medians["alone again"] / base - 1]
            for kind in ("sample", "full"):
                shares += [medians[kind] / base - 1, inside[kind] / base]
            added.append(shares)
        columns = [f"{median(column):.2%}" for column in zip(*added, strict=True)]
        print(f"{running:>7,} | {median(alone) * 1e6:>9,.0f} us | " + " | ".join(columns), flush=True)
    return 0


class _Worker:
    """A process with one scheduler in steady decode, a sixteenth of whose requests needs a new block in each pass."""

    def __init__(self, running: int, checks: Checks) -> None:
        fork = get_context("fork")
        self._pipe, theirs = fork.Pipe()
        self._process = fork.Process(target=self._serve, args=(theirs, running, checks))
        self._process.start()
        self._pipe.recv()

    @staticmethod
    def _serve(pipe: Any, running: int, checks: Checks, passes: int = 8) -> None:
        bare = chosen("Scheduler")
        cls = bare if checks is Checks.OFF else watched(bare, Settings(checks))
        scheduler = scheduler_of(cls, gpu_pages=running * 16, requests=running)
        for number in range(running):
            scheduler.add_request(request_of(number, 1 + number % 16, 200))
        for _ in range(20):
            run_pass(scheduler)
        gc.collect()
        gc.freeze()  # as vLLM does once it has started
        pipe.send(0.0)
        while pipe.recv():
            began = perf_counter()
            for _ in range(passes):
                run_pass(scheduler)
            pipe.send((perf_counter() - began) / passes)
        pipe.send(_inside(scheduler) if checks is not Checks.OFF else 0.0)
        os._exit(0)  # nothing to clean up

    def block(self) -> float:
        """Run some passes. Returns seconds a pass."""
        self._pipe.send(True)
        return float(self._pipe.recv())

    def stop(self) -> float:
        """End the process. Returns the seconds of a pass that its watcher's calls take."""
        self._pipe.send(False)
        inside = float(self._pipe.recv())
        self._process.join()
        return inside


def _inside(scheduler: Any, passes: int = 64) -> float:
    watcher, spent = scheduler._stallproof, []

    def timed(call: Any, output: Any) -> None:
        began = perf_counter()
        call(output)
        spent.append(perf_counter() - began)

    for name in ("scheduled", "updated"):
        setattr(watcher, name, partial(timed, getattr(watcher, name)))
    for _ in range(passes):
        run_pass(scheduler)
    return median(one + other for one, other in zip(spent[::2], spent[1::2], strict=True))


def main() -> int:
    """Run one."""
    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    LOG.setLevel(logging.INFO)
    shows = {
        "pressure": show_pressure,
        "planted": show_planted,
        "engine": whole_engine.show,
        "http": http_server.show,
        "tests": own_tests.show,
        "cost": show_cost,
    }
    wrong = {name: shows[name]() for name in sys.argv[1:] or shows}
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
