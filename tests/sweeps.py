"""Bounds to sweep over, and what a policy breaks in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from stallproof.bounds import Bounds
from stallproof.claims import Kind, Verdict
from stallproof.explorer import NO_LABEL, Exploration, Trace, explore
from stallproof.model import LifecycleModel, Move
from stallproof.packing import pack, unpack
from stallproof.policies import Policy
from stallproof.properties import PROPERTIES

STALLS = frozenset({"no-dead-end", "no-livelock", "oldest-finishes"})
GUARANTEES = frozenset(claim.name for claim in PROPERTIES if claim.kind is not Kind.SOMETIMES)
BIT = {claim.name: bit for bit, claim in enumerate(PROPERTIES)}


def seventy_five() -> Iterator[Bounds]:
    """The bounds of ``rules.md``: 3 x 4 x 2 x 3 with three live requests, and three with four. Prompts to 3."""
    for gpu_pages in (4, 5, 6):
        for host_pages in (0, 1, 2, 3):
            for max_output in (3, 4):
                for chunk_tokens in (1, 2, 3):
                    yield Bounds(3, gpu_pages, host_pages, 1, chunk_tokens, 3, max_output)
    for host_pages in (0, 1, 2):
        yield Bounds(4, 5, host_pages, 1, 2, 3, 3)


def explored(policy: Policy, bounds: Bounds) -> Exploration:
    """All states; a search that was cut off is no answer."""
    exploration = explore(LifecycleModel(policy, bounds), threads=1)
    assert exploration.complete
    return exploration


def broken(exploration: Exploration) -> frozenset[str]:
    """The always- and eventually-properties that fail."""
    return GUARANTEES & {n for n, finding in exploration.findings.items() if finding.verdict is Verdict.VIOLATED}


def broken_by_bounds(policy: Policy, bounds: Iterable[Bounds], **changed: bool) -> dict[Bounds, frozenset[str]]:
    """What fails where, for the bounds in which anything does."""
    found = {b: broken(explored(policy, b._replace(**changed))) for b in bounds}
    return {b: names for b, names in found.items() if names}


def facts_along(policy: Policy, bounds: Bounds, trace: Trace) -> list[int]:
    """The facts of each step of ``trace``, carried out anew: each move from the state before gives the state after."""
    model = LifecycleModel(policy, bounds)
    step = model.new_step()
    start, *rest = trace.steps
    assert start.label == NO_LABEL
    assert not start.row.any()  # no request
    row, facts = start.row, []
    for taken in rest:
        unpack(row, step.before, step.tiers_before)
        facts.append(model.run(step, Move.of_label(taken.label)))
        reached = np.empty_like(row)
        pack(step.after, step.tiers, reached)
        assert np.array_equal(reached, taken.row)
        row = taken.row
    return facts
