"""The heaviest run: exact worst cases such as the passes a request can need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stallproof.compiled import compiled
from stallproof.explorer.model import Bools, Int32s, Int64s
from stallproof.explorer.paths import topological_order
from stallproof.explorer.result import StateGraph

NO_EDGE = -1


@dataclass(frozen=True)
class LongestRun:
    """A run of the greatest weight: its first state, and the ids of its edges in order."""

    weight: int
    start: int
    edges: tuple[int, ...]


@compiled
def heaviest(first_edge: Int64s, target: Int32s, keep: Bools, weight: Int64s, order: Int32s) -> tuple[Int64s, Int64s]:
    """Per state, the greatest weight of a run of kept edges that ends there, and that run's last edge."""
    total = np.zeros(len(order), np.int64)
    last = np.full(len(order), NO_EDGE, np.int64)
    for state in order:
        for edge in range(first_edge[state], first_edge[state + 1]):
            if keep[edge] and total[state] + weight[edge] > total[target[edge]]:
                total[target[edge]] = total[state] + weight[edge]
                last[target[edge]] = edge
    return total, last


def longest_run(graph: StateGraph, keep: Bools, weight: Int64s) -> LongestRun | None:
    """The run of greatest weight among all runs, from any state, that use only kept edges.

    ``keep`` is ``bool[edges]`` and ``weight`` ``int64[edges]``. ``None`` if the kept edges have a
    cycle, for then a run need not end; a self-loop of weight 0 adds nothing and is passed over. The
    run of no edges counts: a weight is never negative.
    """
    keep = np.array(keep, np.bool_)
    weight = np.ascontiguousarray(weight, np.int64)
    idle = np.flatnonzero(keep & (weight == 0))
    sources = np.searchsorted(graph.first_edge, idle, side="right") - 1
    keep[idle[graph.target[idle] == sources]] = False

    order = topological_order(graph.first_edge, graph.target, keep)
    if len(order) < graph.states:
        return None
    total, last = heaviest(graph.first_edge, graph.target, keep, weight, order)
    end = int(np.argmax(total))
    edges: list[int] = []
    start = end
    while last[start] != NO_EDGE:
        edges.append(int(last[start]))
        start = graph.source_of(edges[-1])
    return LongestRun(int(total[end]), start, tuple(reversed(edges)))
