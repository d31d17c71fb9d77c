"""Two policies side by side, and all of them at the same few bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from stallproof.bounds import Bounds
from stallproof.checking import CheckResult, check, judge
from stallproof.claims import Checks, Verdict
from stallproof.compiled import compiled_in_place
from stallproof.driving import CHUNK_TOKENS, PAGE_TOKENS, PASS_SECONDS, default_pools, drive
from stallproof.errors import EXIT_BOUND_REACHED, EXIT_HOLDS, EXIT_VIOLATED
from stallproof.explorer import NO_STATE, Exploration, Progress, explore, number_shared, path_to
from stallproof.model import LifecycleModel, Move, run_pass
from stallproof.outcomes import Stall
from stallproof.packing import Words, unpack
from stallproof.plan import Plan
from stallproof.policies import Policy
from stallproof.policies.interface import Rules
from stallproof.traces import Run, drained_after, run_as_json
from stallproof.witness import Step
from stallproof.workloads import Workload
from stallproof.worst_cases import SENTENCES

REFERENCE: dict[str, Bounds] = {
    "host tier": Bounds(),
    "GPU only": Bounds(gpu_pages=4, host_pages=0),
}
"""The bounds at which every policy is judged for the table of policies: the default, and no tier below the GPU."""


def survey(policies: Iterable[Policy]) -> Iterator[tuple[str, CheckResult]]:
    """Each policy at each of the :data:`REFERENCE` bounds, with all worst cases."""
    for policy in policies:
        for name, bounds in REFERENCE.items():
            yield name, check(policy, bounds, all_worst_cases=True)


def survey_as_json(results: Iterable[tuple[str, CheckResult]]) -> list[dict[str, Any]]:
    """What :func:`survey` found, policy by policy, as plain values."""
    policies: dict[str, dict[str, Any]] = {}
    for name, result in results:
        policy = result.policy
        about = {"name": policy.name, "summary": policy.summary, "unclaimed": sorted(policy.unclaimed), "at": {}}
        policies.setdefault(policy.name, about)["at"][name] = {
            "bounds": result.bounds._asdict(),
            "verdict": result.verdict.value,
            "states": result.states,
            "properties": {p.name: p.verdict.value for p in result.properties},
            "trace_lengths": {p.name: p.trace_length for p in result.failures},
            "worst_case": result.worst_case,
            "unbounded": result.unbounded,
        }
    return list(policies.values())


@dataclass(frozen=True)
class Difference:
    """The first state in which two plans differ, ``after`` steps that both policies share, and what follows.

    ``one`` and ``other``: the shared steps, then passes alone until nobody is left; or a lasso.
    """

    after: int
    one: Run
    other: Run


class Throughput(NamedTuple):
    """What a workload costs under one policy. ``stall``: why it did not get to the end; the counts are then None."""

    finished: int | None = None
    refused: int | None = None
    passes: int | None = None
    suspensions: int | None = None
    recompute_pauses: int | None = None
    recomputed_tokens: int | None = None
    pages_moved: int | None = None  # to the host and back
    mean_passes: float | None = None  # from arrival to finish
    p99_passes: float | None = None
    stall: str | None = None


@dataclass(frozen=True)
class Comparison:
    """Two policies in the same bounds. ``shared``: the states that both reach.

    ``difference``: None if the plans are the same in every state that was seen. ``workload``: the
    name of what ``throughput`` is about, with the sizes of the tiers in pages.
    """

    one: CheckResult
    other: CheckResult
    shared: int
    difference: Difference | None
    workload: str = ""
    throughput: tuple[Throughput, ...] = ()

    @property
    def sides(self) -> tuple[CheckResult, CheckResult]:
        """Both results."""
        return self.one, self.other

    @property
    def exit_code(self) -> int:
        """1 if either policy is violated or stalls on the workload; else 3 if a search was cut off; else 0."""
        verdicts = {side.verdict for side in self.sides}
        if Verdict.VIOLATED in verdicts or any(each.stall for each in self.throughput):
            return EXIT_VIOLATED
        return EXIT_BOUND_REACHED if Verdict.BOUND_REACHED in verdicts else EXIT_HOLDS

    def as_json(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        difference = None
        if self.difference is not None:
            runs = (self.difference.one, self.difference.other)
            difference = {"after": self.difference.after, "runs": [run_as_json(run) for run in runs]}
        return {
            "policies": [side.as_json() for side in self.sides],
            "states_shared": self.shared,
            "first_difference": difference,
            "workload": self.workload or None,
            "throughput": [each._asdict() for each in self.throughput] or None,
        }


def compare(
    one: Policy,
    other: Policy,
    bounds: Bounds,
    *,
    max_states: int | None = None,
    threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Comparison:
    """Explore both policies within ``bounds`` and lay them side by side. Raises UsageError for bounds without sense."""
    bounds = other.told_apart(one.told_apart(bounds))  # the same requests for both
    models = [LifecycleModel(policy, bounds) for policy in (one, other)]
    explored = [explore(model, max_states=max_states, threads=threads, progress=progress) for model in models]
    results = [judge(model, exploration, SENTENCES) for model, exploration in zip(models, explored, strict=True)]
    return Comparison(
        one=results[0],
        other=results[1],
        shared=number_shared(explored[0].rows, explored[1].rows),
        difference=_difference(models[0], models[1], explored[0]),
    )


def _difference(one: LifecycleModel, other: LifecycleModel, explored: Exploration) -> Difference | None:
    """All plans before the first difference, in breadth-first order, are the same: so both share the path to it."""
    steps = one.new_step(), other.new_step()
    state = first_difference(explored.rows, one.policy.rules, other.policy.rules, *steps)
    if state == NO_STATE:
        return None
    moves = [Move.of_label(step.label) for step in path_to(explored, state)[1:]]
    return Difference(len(moves), drained_after(one, moves), drained_after(other, moves))


@compiled_in_place
def first_difference(states: Words, rules: Rules, other_rules: Rules, step: Step, other_step: Step) -> int:
    """The first of ``states`` in which the passes of two policies decide differently, or ``NO_STATE``.

    With lookahead: if no draft is right; a plan does not depend on it.
    """
    for state in range(len(states)):
        unpack(states[state], step.before, step.tiers_before)
        unpack(states[state], other_step.before, other_step.tiers_before)
        run_pass(step, rules, 0)
        run_pass(other_step, other_rules, 0)
        if not same_operations(step.plan, other_step.plan):
            return state
    return NO_STATE


@compiled_in_place
def same_operations(plan: Plan, other: Plan) -> bool:
    """The same events happen to the same requests in the same order; for whom they make room is not asked."""
    if plan.operations[0] != other.operations[0]:
        return False
    for k in range(plan.operations[0]):
        if plan.event[k] != other.event[k] or plan.request[k] != other.request[k]:
            return False
        if plan.amount[k] != other.amount[k]:
            return False
    return True


def on_workload(
    comparison: Comparison, workload: Workload, gpu_pages: int | None = None, host_pages: int | None = None
) -> Comparison:
    """The comparison with what ``workload`` costs under both policies, in pools of the same sizes.

    Sizes default to those of ``stallproof drive``. Raises PoolTooSmall if no request can ever fit.
    """
    if gpu_pages is None:
        gpu_pages, _ = default_pools(
            workload, page_tokens=PAGE_TOKENS, chunk_tokens=CHUNK_TOKENS, burst=False, pass_seconds=PASS_SECONDS
        )
    if host_pages is None:
        host_pages = gpu_pages // 2
    sizes = f"{workload.name}, {len(workload)} requests, {gpu_pages} GPU pages, {host_pages} host pages"
    outcomes = tuple(
        throughput(side.policy, workload, gpu_pages=gpu_pages, host_pages=host_pages) for side in comparison.sides
    )
    return replace(comparison, workload=sizes, throughput=outcomes)


def throughput(
    policy: Policy,
    workload: Workload,
    *,
    gpu_pages: int,
    host_pages: int,
    page_tokens: int = PAGE_TOKENS,
    chunk_tokens: int = CHUNK_TOKENS,
) -> Throughput:
    """Drive the scheduler alone over ``workload``: no page contents, no checks. A stall is a result, not an error.

    Raises PoolTooSmall if no request can ever fit.
    """
    try:
        result = drive(
            workload,
            policy=policy,
            gpu_pages=gpu_pages,
            host_pages=host_pages,
            page_tokens=page_tokens,
            chunk_tokens=chunk_tokens,
            checks=Checks.OFF,
        )
    except Stall as stall:
        return Throughput(stall=str(stall).partition("\n")[0])
    counts = result.engine.counts
    return Throughput(
        finished=counts.finished,
        refused=len(result.refused),
        passes=counts.passes,
        suspensions=counts.suspends,
        recompute_pauses=counts.recompute_pauses,
        recomputed_tokens=counts.recomputed_tokens,
        pages_moved=counts.pages_offloaded + counts.pages_onboarded,
        mean_passes=round(float(np.mean(result.completion_passes)), 3),
        p99_passes=round(float(np.percentile(result.completion_passes, 99)), 3),
    )
