"""Counts worst cases again: replays their runs with :mod:`stallproof.certifier` and counts along.

It shows that a run is real and that its count is the value named; that no run has more is the
search's business. Like the certifier it runs interpreted, without explorer and packed states::

    python -m stallproof.recounting [FILE]      the worst cases of check --worst-cases, as JSON
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from stallproof.certifier import (
    Certificate,
    CertificationError,
    certify_all,
    main,
    replayed,
    require_closed,
)
from stallproof.plain_states import Table
from stallproof.policies import Policy
from stallproof.tiers import RECOMPUTE_PAUSE, SUSPEND
from stallproof.witness import Step


@dataclass(frozen=True)
class Tally:
    """What one step did. ``suspended`` and ``paused`` hold the number of each request, as often as it was."""

    move: str
    before: Table
    after: Table
    suspended: tuple[int, ...]
    paused: tuple[int, ...]
    recomputed: int
    generated: int

    @property
    def passes(self) -> int:
        """1 for a pass."""
        return int(self.move == "pass")

    def holds(self, request: int) -> bool:
        """Whether the request is live before the step."""
        return request in {row.number for row in self.before.rows}


def tally(recorded: dict[str, Any], step: Step, before: Table, after: Table) -> Tally:
    """Count what a replayed step did."""
    operations = [
        (int(step.plan.event[k]), before.rows[int(step.plan.request[k])])
        for k in range(int(step.plan.operations[0]) if recorded["move"] == "pass" else 0)
    ]
    paused = [row for event, row in operations if event == RECOMPUTE_PAUSE]
    tokens = [int(step.after.tokens[r]) - row.tokens for r, row in enumerate(before.rows)]
    return Tally(
        move=recorded["move"],
        before=before,
        after=after,
        suspended=tuple(row.number for event, row in operations if event == SUSPEND),
        paused=tuple(row.number for row in paused),
        recomputed=sum(row.computed for row in paused),
        generated=sum(tokens) if recorded["move"] == "pass" else 0,
    )


def count(name: str, steps: Sequence[Tally], request: int) -> int | Fraction:
    """What the worst case of this name counts in ``steps``. ``request`` 0: it is about all."""
    if name.startswith("recomputed_per_token"):
        return Fraction(sum(step.recomputed for step in steps), max(sum(step.generated for step in steps), 1))
    if name.startswith("passes"):
        return sum(step.passes for step in steps if not request or step.holds(request))
    suspensions = sum(step.suspended.count(request) for step in steps)
    pauses = sum(step.paused.count(request) for step in steps)
    if name.startswith("suspensions"):
        return suspensions
    if name.startswith("recompute_pauses"):
        return pauses
    return suspensions + pauses


def recount(case: dict[str, Any], policy: Policy | None = None) -> Certificate:
    """Certify one worst case in this process, which must be interpreted. Raises CertificationError."""

    def insist(holds: bool, sentence: str) -> None:
        if not holds:
            raise CertificationError(f"{name}: {sentence}")

    name, begin, loop_start, request = case["worst_case"], case["counted_from"], case["loop_start"], case["request"]
    steps = [tally(recorded, *step) for recorded, step in zip(case["steps"], replayed(case, policy), strict=True)]
    states: list[Table] = [Table(), *(step.after for step in steps)]
    insist(0 <= begin <= len(steps), "it counts from a step that is not there")
    counted = steps[begin:]
    if "drain" in name:
        insist(all(step.passes for step in counted), "draining is passes alone")
        insist(loop_start is not None or name == "preemptions_draining" or not states[-1].rows, "somebody is left")
    if loop_start is not None:
        insist(loop_start == begin, "what recurs is what is counted")
        insist(bool(counted), "the loop is empty")
        require_closed(states, loop_start)
    if request:
        insist(all(step.holds(request) for step in counted), f"R{request} is gone before the end")
        insist(loop_start is None or request in {row.number for row in states[-1].rows}, f"R{request} leaves the loop")
    if "oldest" in name:
        insist(all(step.before.rows[0].number == request for step in counted), f"R{request} is not the oldest")
    if name.startswith("passes_") and request and loop_start is None:
        insist(counted[-1].passes == 1 and request not in {row.number for row in states[-1].rows}, "it does not finish")
    if name == "recomputed_per_token":
        insist(all(step.move != "cancel" for step in counted), "somebody is cancelled")

    # The whole life of a request counts, a lasso only round its loop.
    whole_life = name.endswith("of_one_request") and loop_start is None
    found = count(name, steps if whole_life else counted, request)
    if case["value"] is None:
        if name == "recomputed_per_token":
            insist(not any(step.generated for step in counted), "tokens are generated round the loop")
        insist(found > 0 and loop_start is not None, "the count does not grow for ever")
    else:
        insist(found == Fraction(*case["value"]), f"the run shows {found}, not {Fraction(*case['value'])}")
    return Certificate(name, len(steps), len(steps) - loop_start if loop_start is not None else 0)


def recount_all(cases: Sequence[dict[str, Any]]) -> list[Certificate]:
    """Certify worst cases in a process of its own. Raises CertificationError with what was wrong."""
    return certify_all(cases, "stallproof.recounting")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], recount))
