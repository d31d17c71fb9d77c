"""Refutes every defect of the shelf, and shows by a second route that it is refuted and that no run is shorter.

``NUMBA_DISABLE_JIT=1 python -m model_checking.shelf [NAME ...]`` prints, as JSON, what it found of each. First
route: the explorer. Second: the certifier replays its trace; and a plain breadth-first search, networkx for cycles,
looks for the shortest run anew.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections import deque
from types import ModuleType
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

from model_checking.defects import SHELF, Defect
from model_checking.ranks import Ranks, moves_of
from model_checking.variants import in_place
from stallproof.certifier import CertificationError, certify, replayed
from stallproof.claims import Kind, Verdict
from stallproof.explorer import Exploration, Model, explore
from stallproof.model import LifecycleModel, Move
from stallproof.recounting import recount
from stallproof.traces import as_json, run_as_json, run_of, trace_of
from stallproof.worst_cases import SENTENCES, worst_cases

MOST_STATES = 3_000
"""A search that has found its trace need not be exhausted: a breadth-first trace is a shortest all the same."""


class Refutation(NamedTuple):
    """What was found. ``steps`` by the explorer, ``plainly`` by the plain search; ``certificate`` in words.

    ``broken``: all always- and eventually-properties that fail; ``good``: those that fail where the rule is right,
    None if the good one is ``resident-first`` itself.
    """

    steps: int
    plainly: int
    certificate: str
    broken: list[str]
    good: list[str] | None


def module_of(name: str) -> ModuleType:
    """The defect's file."""
    return importlib.import_module(f"model_checking.defects.{name.replace('-', '_')}")


def failing(exploration: Exploration) -> list[str]:
    """The always- and eventually-properties that fail."""
    violated = [f.claim for f in exploration.findings.values() if f.verdict is Verdict.VIOLATED]
    return sorted(claim.name for claim in violated if claim.kind is not Kind.SOMETIMES)


def refute(defect: Defect) -> Refutation:
    """Refute ``defect``, both ways. Raises CertificationError if they do not agree on what happens."""
    module = module_of(defect.name)
    if defect.breaks in SENTENCES:
        return count(defect, module)
    if hasattr(module, "ranks"):
        return refute_ranks(defect, module)
    with in_place(getattr(module, "REPLACED", {})):
        model = LifecycleModel(module.POLICY, defect.bounds)
        exploration = explore(model, threads=1, max_states=MOST_STATES)
        finding = exploration.findings[defect.breaks]
        assert finding.trace is not None, f"{defect.name} does not break {defect.breaks}"
        moves = [Move.of_label(step.label) for step in finding.trace.steps[1:]]
        trace = trace_of(model, finding.claim, moves, finding.trace.loop_start)
        plainly = shortest(model, [claim.name for claim in model.claims].index(defect.breaks))
        certificate = certified(as_json(trace), module)
    good = None
    if hasattr(module, "GOOD_POLICY") or hasattr(module, "GOOD"):
        with in_place(getattr(module, "GOOD", {})):
            policy = getattr(module, "GOOD_POLICY", module.POLICY)
            explored = explore(LifecycleModel(policy, defect.bounds), threads=1)
            assert explored.complete
            good = failing(explored)
    return Refutation(len(moves), plainly, certificate, failing(exploration), good)


def certified(trace: dict[str, Any], module: ModuleType) -> str:
    """What the certifier says. It may object to the pages of the last state, by arithmetic of its own."""
    try:
        certificate = certify(trace, module.POLICY)
    except CertificationError as error:
        if not str(error).startswith(f"step {len(trace['steps'])}: ") or "pages" not in str(error):
            raise
        return str(error)
    return f"{certificate.steps} steps, the last {certificate.loop} for ever" if certificate.loop else "the last step"


# ---- The shortest run, found plainly ------------------------------------------------------------------


def shortest(model: Model, bit: int) -> int:
    """Steps of the shortest run that breaks the claim; for a lasso, of its shortest stem and the least loop there."""
    always = model.claims[bit].kind is Kind.ALWAYS
    depth = {model.initial_rows()[0].tobytes(): 0}
    queue = deque(depth)
    edges: list[tuple[bytes, bytes, int]] = []
    while queue:
        state = queue.popleft()
        made = model.successors(np.frombuffer(state, np.uint64)[None, :])
        for row, facts in zip(made.row, made.facts, strict=True):
            breaks, target = int(facts) >> bit & 1, row.tobytes()
            if breaks and always:
                return depth[state] + 1
            if breaks:
                edges.append((state, target, sum(1 << b for b in model.fairness if int(facts) >> b & 1)))
            if target not in depth:
                depth[target] = depth[state] + 1
                queue.append(target)
    return shortest_lasso(edges, depth, sum(1 << b for b in model.fairness))


def shortest_lasso(edges: list[tuple[bytes, bytes, int]], depth: dict[bytes, int], fair: int) -> int:
    """``depth`` is in the order of search: of the states on a fair cycle the first has the shortest stem."""
    graph = nx.MultiDiGraph()
    graph.add_edges_from((source, target, {"marks": marks}) for source, target, marks in edges)
    on_cycles: set[bytes] = set()
    for component in nx.strongly_connected_components(graph):
        marks = 0
        for _, _, data in graph.subgraph(component).edges(data=True):
            marks |= data["marks"]
        if marks == fair:
            on_cycles |= component
    entry = next(state for state in depth if state in on_cycles)
    distance = {(entry, 0): 0}
    queue = deque(distance)
    while queue:
        state, seen = queue.popleft()
        for _, target, data in graph.out_edges(state, data=True):
            reached = (target, seen | data["marks"])
            if reached == (entry, fair):
                return depth[entry] + distance[state, seen] + 1
            if reached not in distance:
                distance[reached] = distance[state, seen] + 1
                queue.append(reached)
    raise AssertionError("a strongly connected component has a cycle through each of its states")


# ---- Ranks, and what only a worst case shows ----------------------------------------------------------


def refute_ranks(defect: Defect, module: ModuleType) -> Refutation:
    """Each rank's own run is certified, and their plans are laid side by side: equal but for the last."""
    ranks: Ranks = module.ranks(defect.bounds)
    exploration = explore(ranks, threads=1, max_states=MOST_STATES)
    trace = exploration.findings[defect.breaks].trace
    assert trace is not None, f"the ranks of {defect.name} agree"
    labels = [step.label for step in trace.steps[1:]]
    plans = []
    for k, rank in enumerate(ranks.ranks):
        moves = [move for label in labels if (move := moves_of(label)[k]) is not None]
        with in_place(rank.replaced):
            run = run_as_json(run_of(ranks.models[k], moves))
            plans.append(
                [
                    (step.plan.scheduled.tolist(), [row.phase for row in after.rows])
                    for step, _, after in replayed(run, module.POLICY)
                    if step.is_pass[0]
                ]
            )
    if plans[0][:-1] != plans[1][:-1] or plans[0][-1] == plans[1][-1]:
        raise CertificationError(f"{defect.name}: the ranks do not part in the last pass, and there alone")
    good = explore(module.good_ranks(defect.bounds), threads=1, max_states=MOST_STATES)
    certificate = f"the ranks part in pass {len(plans[0])}"
    return Refutation(len(labels), shortest(ranks, 0), certificate, failing(exploration), failing(good))


def count(defect: Defect, module: ModuleType) -> Refutation:
    """A defect that only an exact worst case shows; ``steps`` is the count, ``plainly`` that of the good policy."""
    counts = []
    for policy in (module.POLICY, module.GOOD_POLICY):
        model = LifecycleModel(policy, defect.bounds)
        exploration = explore(model, threads=1)
        (case,) = worst_cases(model, exploration, [defect.breaks])
        certificate = recount(case.as_json(), policy)
        counts.append((int(case.value or 0), certificate.steps, failing(exploration)))
    (bad, steps, broken), (good, _, good_broken) = counts
    return Refutation(bad, good, f"counted again over {steps} steps", broken, good_broken)


def main(names: list[str]) -> int:
    """Refute the named defects, or all."""
    chosen = [defect for defect in SHELF if not names or defect.name in names]
    print(json.dumps({defect.name: refute(defect)._asdict() for defect in chosen}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
