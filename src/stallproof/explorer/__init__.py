"""Exhaustive breadth-first exploration of a finite model, exact, in compiled code.

Knows no request and no scheduler. In: a :class:`Model` and its claims. Out: a verdict per claim with
a shortest trace or lasso, and the graph of all states. Modules, each importing only those above it::

    model       what a model must offer
    result      the graph, traces, findings
    states      the set of states met
    paths       topological order, subgraph
    traces      runs as labels and rows
    cycles      eventually-claims
    longest     the heaviest run
    ratios      the greatest ratio round a cycle
    expansion   successors, computed ahead
    search      breadth first; verdicts
    digest      the set of states in one number
"""

from stallproof.explorer.cycles import loop_through
from stallproof.explorer.digest import state_digest
from stallproof.explorer.longest import LongestRun, longest_run
from stallproof.explorer.model import FIRST_MARK, MAX_CLAIMS, SYSTEM_STEP, Model, Successors
from stallproof.explorer.paths import subgraph
from stallproof.explorer.ratios import GreatestRatio, greatest_ratio
from stallproof.explorer.result import (
    NO_LABEL,
    NO_STATE,
    Exploration,
    Finding,
    Progress,
    StateGraph,
    Trace,
    TraceStep,
)
from stallproof.explorer.search import explore
from stallproof.explorer.states import number_shared
from stallproof.explorer.traces import path_to

__all__ = [
    "FIRST_MARK",
    "MAX_CLAIMS",
    "NO_LABEL",
    "NO_STATE",
    "SYSTEM_STEP",
    "Exploration",
    "Finding",
    "GreatestRatio",
    "LongestRun",
    "Model",
    "Progress",
    "StateGraph",
    "Successors",
    "Trace",
    "TraceStep",
    "explore",
    "greatest_ratio",
    "longest_run",
    "loop_through",
    "number_shared",
    "path_to",
    "state_digest",
    "subgraph",
]
