"""One mutant explored at the reference bounds: which claim kills it, and in how many steps.

The pass runs the mutated module; the claims go on reading the shipped one, so that a mutant cannot excuse itself: the
names that the pass has of the mutated module are put in place of the shipped ones in the pass's modules alone.
"""

from __future__ import annotations

import ast
import hashlib
import json
import types
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from model_checking.crosscheck import MANIFEST, bounds_of
from model_checking.mutants.operators import Mutant, mutants_of
from stallproof import candidates, limits, model, plan, room, scheduling, tiers, witness
from stallproof.bounds import Bounds
from stallproof.claims import Kind, Verdict
from stallproof.compiled import INTERPRETED
from stallproof.explorer import Exploration, explore
from stallproof.model import LifecycleModel
from stallproof.policies import Policy, resident_first

MUTATED = (resident_first, scheduling, candidates, room, limits, plan, tiers)
"""The shipped pass: what it decides with."""

ASKS = (resident_first, scheduling, candidates, room, plan, model)
"""The modules whose names lead to a mutated one. The model takes the pass and its verbs from them, no claim."""

ENVIRONMENT = {witness: ("settle", "settle_abandoned")}
"""Of the modules that judge, the names that the environment acts with: they lead to the mutated module too."""

MOST_STATES = 6_000
"""A correct pass has fewer in every reference bound."""

MOST_TRANSITIONS_ONCE_NOTICED = 3_000
"""Where the counts have told of a mutant, only smaller bounds are searched for a claim that it breaks."""

BOUNDS = (
    "live 2 gpu-pages 4 host-pages 0 max-prompt 3 max-output 3",
    "live 3 gpu-pages 4 host-pages 1 cancel False",
    "live 3 gpu-pages 5 host-pages 2 state-pages 1",
    "live 3 gpu-pages 4 host-pages 1 lookahead 1 pass-tokens 2",
    "live 3 gpu-pages 4 host-pages 0",
    "live 3 gpu-pages 4 host-pages 1 max-output 4 lookahead 1",
    "live 2 gpu-pages 4 host-pages 0 priorities 3",
    "live 3 gpu-pages 5 host-pages 1 pass-requests 2 pass-tokens 3",
    "live 3 gpu-pages 5 host-pages 2",
    "live 3 gpu-pages 3 host-pages 0 page-tokens 2 chunk-tokens 3 max-prompt 4",
    "live 3 gpu-pages 5 host-pages 0 chunk-tokens 1",
    "live 3 gpu-pages 4 host-pages 1 copies",
    "live 3 gpu-pages 3 host-pages 1 page-tokens 2 max-output 4",
    "live 3 gpu-pages 6 host-pages 1 max-output 4",
    "live 3 gpu-pages 4 host-pages 1 priorities 2",
    "live 3 gpu-pages 4 host-pages 1 max-output 4 priorities 2 lookahead 1 copies",
)
"""The reference bounds, cheap ones first: models of the manifest, whose counts Rumur confirms."""

TWO_COPIES = "live 3 gpu-pages 4 host-pages 2 copies"
FURTHER = {
    "tiers.abandoned: ": (TWO_COPIES,),
    "tiers.oldest_suspension: ": (TWO_COPIES,),
    "candidates.newest_candidate: drop": (TWO_COPIES,),
    "room.come_back: ": (TWO_COPIES,),
}
"""Too slow a bound for all: for mutants that only a second copy in flight can tell from the shipped pass."""


class Outcome(NamedTuple):
    """What became of a mutant.

    ``by``: the property that fails; "raises" if the pass stops with an error; "counts" if every claim holds, but the
    graph has not the states and transitions that Rumur counts; "graph" if only the transitions differ; "nothing" if
    the graph is the same to the last fact in every bound. ``steps``: of the shortest trace. ``bounds``: where.
    """

    by: str
    steps: int | None = None
    bounds: str | None = None
    says: str | None = None


def all_mutants() -> list[Mutant]:
    """Every mutant of the shipped pass and of ``resident-first``."""
    made = []
    for module in MUTATED:
        assert module.__file__ is not None
        made += mutants_of(Path(module.__file__).read_text(), module.__name__.rsplit(".", 1)[-1])
    return made


def reference_bounds(names: tuple[str, ...] = BOUNDS) -> list[tuple[str, Bounds, dict[str, Any]]]:
    """Name, bounds and entry in the manifest of each reference bound."""
    entries = {entry["name"]: entry for entry in json.loads(MANIFEST.read_text())["models"]}
    return [(name, bounds_of(entry), entry) for name in names for entry in [entries[f"resident-first {name}"]]]


def put_in_place(mutant: Mutant) -> Policy:
    """From now on this process's pass is the mutant. Returns its policy."""
    if not INTERPRETED:
        raise RuntimeError("compiled code has no names to replace: set NUMBA_DISABLE_JIT=1")
    shipped = next(module for module in MUTATED if module.__name__.endswith(mutant.name.split(".")[0]))
    mutated = types.ModuleType(shipped.__name__)
    mutated.__file__ = shipped.__file__
    exec(compile(ast.unparse(mutant.tree), f"<{mutant.name}>", "exec"), mutated.__dict__)
    made = {
        name: function
        for name, function in vars(mutated).items()
        if isinstance(function, types.FunctionType) and function.__module__ == shipped.__name__
    }
    for module in ASKS:
        if module is not shipped:
            for name, function in list(vars(module).items()):
                if name in made and function is getattr(shipped, name):
                    setattr(module, name, made[name])
    for module, names in ENVIRONMENT.items():
        for name in names:
            if name in made:
                setattr(module, name, made[name])
    if shipped is resident_first:
        return mutated.RESIDENT_FIRST
    return resident_first.RESIDENT_FIRST


def judge(mutant: Mutant, digests: dict[str, str]) -> Outcome:
    """Explore ``mutant`` bound by bound until something notices. ``digests``: of the shipped pass's graphs."""
    policy = put_in_place(mutant)
    differs = None
    further = [name for prefix, names in FURTHER.items() if mutant.name.startswith(prefix) for name in names]
    for name, bounds, entry in reference_bounds((*BOUNDS, *further)):
        if differs is not None and entry["transitions"] > MOST_TRANSITIONS_ONCE_NOTICED:
            continue
        policy = replace(policy, unclaimed=policy.unclaimed | frozenset(entry.get("unclaimed", ())))
        try:
            explored = explore(LifecycleModel(policy, bounds), threads=1, max_states=MOST_STATES)
        except Exception as error:
            return Outcome("raises", None, name, f"{type(error).__name__}: {error}"[:120])
        if (killer := _killer(explored, policy)) is not None:
            return Outcome(*killer, name)
        counts = (explored.states, explored.transitions)
        if counts != (entry["states"], entry["transitions"]):
            says = f"{counts[0]:,} states and {counts[1]:,} transitions, where Rumur counts {entry['states']:,} and "
            differs = differs or Outcome("counts", None, name, f"{says}{entry['transitions']:,}")
        elif graph_digest(explored) != digests.get(name):
            differs = differs or Outcome("graph", None, name)
    return differs or Outcome("nothing")


def _killer(explored: Exploration, policy: Policy) -> tuple[str, int | None] | None:
    """The claim that fails with the shortest trace, one that says *sometimes* last."""
    failed = []
    for finding in explored.findings.values():
        if finding.verdict is Verdict.VIOLATED and finding.claim.name not in policy.unclaimed:
            steps = finding.trace.length if finding.trace is not None else None
            failed.append((finding.claim.kind is Kind.SOMETIMES, steps or 0, finding.claim.name, steps))
    return (min(failed)[2], min(failed)[3]) if failed else None


def graph_digest(explored: Exploration) -> str:
    """Of states, transitions and facts, in the order of search: the same for the same behaviour."""
    digest = hashlib.sha256()
    for column in (explored.rows, explored.first_edge, explored.target, explored.label, explored.facts):
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


def shipped_digests() -> dict[str, str]:
    """Of the shipped pass, by reference bound. Raises AssertionError if one of them does not hold."""
    digests = {}
    further = sorted({name for names in FURTHER.values() for name in names})
    for name, bounds, entry in reference_bounds((*BOUNDS, *further)):
        explored = explore(LifecycleModel(resident_first.RESIDENT_FIRST, bounds), threads=1)
        assert (explored.states, explored.transitions) == (entry["states"], entry["transitions"]), name
        digests[name] = graph_digest(explored)
    return digests
