"""Check a policy within bounds: explore everything, judge every property, say one verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stallproof.bounds import Bounds
from stallproof.claims import Kind, Verdict
from stallproof.errors import EXIT_BOUND_REACHED, EXIT_HOLDS, EXIT_VIOLATED
from stallproof.explorer import SYSTEM_STEP, Exploration, Finding, Progress, explore, longest_run, state_digest
from stallproof.model import LifecycleModel, Move
from stallproof.plan import Rule
from stallproof.policies import Policy, policy_named
from stallproof.traces import Trace, trace_of

EXIT_CODES = {
    Verdict.HOLDS: EXIT_HOLDS,
    Verdict.VIOLATED: EXIT_VIOLATED,
    Verdict.BOUND_REACHED: EXIT_BOUND_REACHED,
}


@dataclass(frozen=True)
class PropertyResult:
    """What became of one property. ``trace``: the shortest counterexample, if it is violated and has one."""

    name: str
    kind: Kind
    sentence: str
    verdict: Verdict
    claimed: bool
    states_checked: int
    trace: Trace | None

    @property
    def trace_length(self) -> int | None:
        """Steps of the trace, the loop's included; None without a trace."""
        return None if self.trace is None else len(self.trace.moves)

    @property
    def failed(self) -> bool:
        """It is violated, claimed or not."""
        return self.verdict is Verdict.VIOLATED


@dataclass(frozen=True)
class CheckResult:
    """The result of :func:`check`.

    ``worst_case``: exact maxima over all states, or None where runs can go on for ever:
    ``passes_to_drain``, passes until every request has finished if the environment does nothing more.
    ``digest`` is of the set of states, whatever the order of search.
    """

    policy: Policy
    bounds: Bounds
    verdict: Verdict
    states: int
    transitions: int
    depth: int
    seconds: float
    properties: tuple[PropertyResult, ...]
    coverage: dict[str, int]
    worst_case: dict[str, int | None]
    digest: str

    @property
    def exit_code(self) -> int:
        """0 holds, 1 violated, 3 bound reached."""
        return EXIT_CODES[self.verdict]

    @property
    def failures(self) -> tuple[PropertyResult, ...]:
        """Every violated property, claimed ones first."""
        return tuple(sorted((p for p in self.properties if p.failed), key=lambda p: not p.claimed))

    def as_json(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        return {
            "verdict": self.verdict.value,
            "policy": self.policy.name,
            "bounds": self.bounds._asdict(),
            "states": self.states,
            "transitions": self.transitions,
            "depth": self.depth,
            "seconds": round(self.seconds, 6),
            "states_per_second": round(self.states / max(self.seconds, 1e-9)),
            "properties": [
                {
                    "name": p.name,
                    "kind": p.kind.value,
                    "sentence": p.sentence,
                    "verdict": p.verdict.value,
                    "claimed": p.claimed,
                    "states_checked": p.states_checked,
                    "trace_length": p.trace_length,
                }
                for p in self.properties
            ],
            "coverage": self.coverage,
            "worst_case": self.worst_case,
            "digest": self.digest,
        }


def prepare(policy: Policy, bounds: Bounds) -> None:
    """Compile what a check needs, or take it from the cache, so that its seconds are the search's."""
    explore(LifecycleModel(policy, bounds), max_states=2, threads=1)


def check(
    policy: Policy | str = "resident-first",
    bounds: Bounds | None = None,
    *,
    max_states: int | None = None,
    threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> CheckResult:
    """Explore every state of ``policy`` within ``bounds`` and judge every property.

    Raises UsageError for bounds that make no sense and UnknownPolicy for a name that is not there.
    """
    if isinstance(policy, str):
        policy = policy_named(policy)
    model = LifecycleModel(policy, bounds or Bounds())
    exploration = explore(model, max_states=max_states, threads=threads, progress=progress)
    results = tuple(_judge(model, finding) for finding in exploration.findings.values())
    if any(result.failed and result.claimed for result in results):
        verdict = Verdict.VIOLATED
    else:
        verdict = Verdict.HOLDS if exploration.complete else Verdict.BOUND_REACHED
    return CheckResult(
        policy=policy,
        bounds=model.bounds,
        verdict=verdict,
        states=exploration.states,
        transitions=exploration.transitions,
        depth=exploration.depth,
        seconds=exploration.seconds,
        properties=results,
        coverage={rule.label: int(exploration.fired[rule]) for rule in Rule},
        worst_case={"passes_to_drain": passes_to_drain(exploration)},
        digest=state_digest(exploration.rows),
    )


def _judge(model: LifecycleModel, finding: Finding) -> PropertyResult:
    claim = finding.claim
    trace = None
    if finding.verdict is Verdict.VIOLATED and finding.trace is not None:
        moves = [Move.of_label(step.label) for step in finding.trace.steps[1:]]
        trace = trace_of(model, claim, moves, finding.trace.loop_start)
    return PropertyResult(
        name=claim.name,
        kind=claim.kind,
        sentence=claim.sentence,
        verdict=finding.verdict,
        claimed=claim.name not in model.policy.unclaimed,
        states_checked=finding.states_checked,
        trace=trace,
    )


def passes_to_drain(exploration: Exploration) -> int | None:
    """The most passes, from any state, until no request is left if nothing arrives, stops or is cancelled.

    None if some run of passes never ends, or the search was cut off.
    """
    if not exploration.complete:
        return None
    passes = exploration.facts >> np.uint64(SYSTEM_STEP) != 0
    source = np.repeat(np.arange(exploration.states), np.diff(exploration.first_edge))
    passes &= (exploration.rows[source] != 0).any(axis=1)  # a pass over nobody
    run = longest_run(exploration, passes, np.ones(len(passes), np.int64))
    return None if run is None else int(run.weight)
