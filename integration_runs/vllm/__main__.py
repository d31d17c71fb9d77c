"""Runs the stand-alone schedulers under the watcher: ``python -m integration_runs.vllm pressure|planted|cost``."""

from __future__ import annotations

import logging
import os
import sys
from statistics import median
from time import perf_counter
from typing import Any

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


def show_cost(passes: int = 60) -> int:
    """Seconds of schedule() and update_from_output() in steady decode, interleaved pass by pass; medians."""
    rows = []
    for running in (128, 1024):
        kinds = {"alone": chosen("Scheduler")}
        for checks in (Checks.SAMPLE, Checks.FULL):
            kinds[checks.name.lower()] = watched(chosen("Scheduler"), Settings(checks))
        schedulers = {}
        for kind, cls in kinds.items():
            schedulers[kind] = scheduler_of(cls, gpu_pages=running * 12, requests=running)
            for number in range(running):
                schedulers[kind].add_request(request_of(number, 4, 180))
            for _ in range(4):
                run_pass(schedulers[kind])
        ratios: dict[str, list[float]] = {"sample": [], "full": []}
        alone = []
        for _ in range(passes // 4):
            spent = {}
            for kind, scheduler in schedulers.items():
                began = perf_counter()
                for _ in range(8):
                    run_pass(scheduler)
                spent[kind] = (perf_counter() - began) / 8
            alone.append(spent["alone"])
            for kind in ratios:
                ratios[kind].append(spent[kind] / spent["alone"] - 1)
        rows.append((running, median(alone), median(ratios["sample"]), median(ratios["full"])))
    print("running | a pass alone | sample adds | full adds")
    for running, seconds, sample, full in rows:
        print(f"{running:>7,} | {seconds * 1e6:>9,.0f} us | {sample:>11.2%} | {full:>9.2%}")
    return 0


def main() -> int:
    """Run one."""
    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    LOG.setLevel(logging.INFO)
    shows = {"pressure": show_pressure, "planted": show_planted, "cost": show_cost}
    return 1 if shows[sys.argv[1]]() else 0


if __name__ == "__main__":
    sys.exit(main())
