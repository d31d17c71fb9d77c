"""Check a policy within bounds: explore everything, judge every property, say one verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from stallproof.asking_again import own_rules, require_same_answers
from stallproof.bounds import Bounds
from stallproof.claims import Kind, Verdict
from stallproof.errors import EXIT_BOUND_REACHED, EXIT_HOLDS, EXIT_VIOLATED
from stallproof.explorer import Exploration, Finding, Progress, explore, state_digest
from stallproof.model import LifecycleModel, Move
from stallproof.plan import Rule
from stallproof.policies import Policy, policy_named
from stallproof.traces import Trace, trace_of
from stallproof.worst_cases import CHEAP, SENTENCES, WorstCase, worst_cases

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

    ``worst_cases``: exact maxima over all runs, see :mod:`stallproof.worst_cases`; none of a search that was
    cut off. ``digest`` is of the set of states, whatever the order of search.
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
    worst_cases: tuple[WorstCase, ...]
    digest: str

    @property
    def worst_case(self) -> dict[str, int | float | None]:
        """The worst cases as plain numbers by name. None: unbounded, or unknown since the search was cut off."""
        return dict.fromkeys(CHEAP) | {case.name: case.number for case in self.worst_cases}

    @property
    def unbounded(self) -> list[str]:
        """The names of the worst cases that have no maximum."""
        return [case.name for case in self.worst_cases if case.value is None]

    @property
    def exit_code(self) -> int:
        """0 holds, 1 violated, 3 bound reached."""
        return EXIT_CODES[self.verdict]

    @property
    def failures(self) -> tuple[PropertyResult, ...]:
        """Every violated property, claimed ones first."""
        return tuple(sorted((p for p in self.properties if p.failed), key=lambda p: not p.claimed))

    @property
    def findings(self) -> tuple[PropertyResult, ...]:
        """The failures worth telling: without what nobody claims to happen and does not."""
        return tuple(p for p in self.failures if p.claimed or p.kind is not Kind.SOMETIMES)

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
            "unbounded": self.unbounded,
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
    all_worst_cases: bool = False,
) -> CheckResult:
    """Explore every state of ``policy`` within ``bounds`` and judge every property.

    ``all_worst_cases``: also those that take as long as the search, and several times its memory. Raises
    UsageError for bounds that make no sense, UnknownPolicy for a name that is not there, and PolicyFileError
    for a policy of somebody's file that cannot be asked, or does not always answer the same.
    """
    if isinstance(policy, str):
        policy = policy_named(policy)
    model = LifecycleModel(policy, bounds or Bounds())
    exploration = explore(model, max_states=max_states, threads=threads, progress=progress)
    if own_rules(policy.rules):
        require_same_answers(model, exploration)
    return judge(model, exploration, SENTENCES if all_worst_cases else CHEAP)


def judge(model: LifecycleModel, exploration: Exploration, names: Iterable[str] = CHEAP) -> CheckResult:
    """What an exploration of ``model`` says, with the worst cases of these names."""
    results = tuple(_judge(model, finding) for finding in exploration.findings.values())
    if any(result.failed and result.claimed for result in results):
        verdict = Verdict.VIOLATED
    else:
        verdict = Verdict.HOLDS if exploration.complete else Verdict.BOUND_REACHED
    return CheckResult(
        policy=model.policy,
        bounds=model.bounds,
        verdict=verdict,
        states=exploration.states,
        transitions=exploration.transitions,
        depth=exploration.depth,
        seconds=exploration.seconds,
        properties=results,
        coverage={rule.label: int(exploration.fired[rule]) for rule in Rule},
        worst_cases=worst_cases(model, exploration, names),
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
