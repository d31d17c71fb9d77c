"""Runs as a person follows them: a label and a row per step."""

from __future__ import annotations

from collections.abc import Sequence

from stallproof.explorer.model import UInt64s
from stallproof.explorer.result import NO_LABEL, NO_STATE, StateGraph, Trace, TraceStep


def path_to(graph: StateGraph, state: int) -> tuple[TraceStep, ...]:
    """A shortest run from an initial state to ``state``, which its last step holds."""
    steps = []
    while graph.parent[state] != NO_STATE:
        steps.append(TraceStep(int(graph.parent_label[state]), graph.rows[state].copy()))
        state = int(graph.parent[state])
    steps.append(TraceStep(NO_LABEL, graph.rows[state].copy()))
    return tuple(reversed(steps))


def along(graph: StateGraph, edges: Sequence[int]) -> tuple[TraceStep, ...]:
    """The steps over ``edges``, without the state the first of them leaves."""
    return tuple(TraceStep(int(graph.label[edge]), graph.rows[graph.target[edge]].copy()) for edge in edges)


def run_through(graph: StateGraph, source: int, label: int, row: UInt64s) -> Trace:
    """A shortest run whose last step leaves ``source``; ``row`` need not be among the states."""
    return Trace((*path_to(graph, source), TraceStep(label, row)))


def lasso(graph: StateGraph, loop: Sequence[int]) -> Trace:
    """A shortest run to where ``loop``, a closed sequence of edges, starts, then once round it."""
    stem = path_to(graph, graph.source_of(loop[0]))
    return Trace((*stem, *along(graph, loop)), loop_start=len(stem) - 1)
