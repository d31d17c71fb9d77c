"""Exhaustive breadth-first exploration of a finite model, exact, in compiled code.

Knows no request and no scheduler. In: a :class:`Model` and its claims. Out: a verdict per claim with
a shortest trace or lasso, and the graph of all states. Modules, each importing only those above it::

    model       what a model must offer
    result      the graph, traces, findings
    states      the set of states met
    paths       topological order, subgraph
    longest     the heaviest run
    traces      runs as labels and rows
    cycles      eventually-claims
    expansion   successors, computed ahead
    search      breadth first; verdicts
    digest      the set of states in one number
"""

from stallproof.explorer.digest import state_digest
from stallproof.explorer.longest import LongestRun, longest_run
from stallproof.explorer.model import MAX_CLAIMS, SYSTEM_STEP, Model, Successors
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
from stallproof.explorer.traces import path_to

__all__ = [
    "MAX_CLAIMS",
    "NO_LABEL",
    "NO_STATE",
    "SYSTEM_STEP",
    "Exploration",
    "Finding",
    "LongestRun",
    "Model",
    "Progress",
    "StateGraph",
    "Successors",
    "Trace",
    "TraceStep",
    "explore",
    "longest_run",
    "path_to",
    "state_digest",
]
