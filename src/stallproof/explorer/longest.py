"""The heaviest run: exact worst cases such as the passes a request can need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stallproof.compiled import compiled
from stallproof.explorer.cycles import UNSEEN, strong_components
from stallproof.explorer.model import Int32s, Int64s

NO_EDGE = -1


@dataclass(frozen=True)
class LongestRun:
    """A run of the greatest weight: its first state, and its edges in order."""

    weight: int
    start: int
    edges: tuple[int, ...]


def longest_run(first: Int32s, target: Int32s, weight: Int64s, depth: Int32s) -> LongestRun | None:
    """The run of greatest weight among all runs, from any state, over the edges of a graph.

    ``first`` is ``int32[states + 1]``, as :attr:`StateGraph.first_edge` (see
    :func:`~stallproof.explorer.paths.subgraph`); ``weight``, never negative, ``int64[edges]``. A cycle of
    weight 0 does no harm. ``None`` if one has weight, for then no run is the heaviest.

    ``depth``, ``int32[states]`` and ascending, says how far each state is from an initial one: of the
    heaviest runs, the answer is one that is shortest, counted from there.
    """
    component = strong_components(first, target)
    order = np.argsort(component, kind="stable").astype(np.int32)
    total = np.zeros(len(order), np.int64)
    if not weigh(first, target, weight, component, order, total):
        return None
    steps, last, source = shorten(first, target, weight, total, depth)
    heaviest = np.flatnonzero(total == total.max())
    end = int(heaviest[np.argmin(steps[heaviest])])
    edges: list[int] = []
    start = end
    while last[start] != NO_EDGE:
        edges.append(int(last[start]))
        start = int(source[start])
    return LongestRun(int(total[end]), start, tuple(reversed(edges)))


@compiled
def weigh(first: Int32s, target: Int32s, weight: Int64s, component: Int32s, order: Int32s, total: Int64s) -> bool:
    """Write to ``total``, per state, the greatest weight of a run that ends there; False if a cycle has weight.

    ``order``: the states component by component, so that every edge leads to the same or to a later
    one. Whatever leads to one state of a component leads to all of them, without more weight.
    """
    begin = 0
    while begin < len(order):
        end = begin
        most = 0
        while end < len(order) and component[order[end]] == component[order[begin]]:
            most = max(most, total[order[end]])
            end += 1
        for state in order[begin:end]:
            total[state] = most
            for edge in range(first[state], first[state + 1]):
                reached = target[edge]
                if component[reached] != component[state]:
                    total[reached] = max(total[reached], most + weight[edge])
                elif weight[edge] > 0:
                    return False
        begin = end
    return True


@compiled
def shorten(
    first: Int32s, target: Int32s, weight: Int64s, total: Int64s, depth: Int32s
) -> tuple[Int32s, Int32s, Int32s]:
    """Per state the fewest steps of a run of weight ``total`` to it, the last edge and the state that edge leaves.

    Breadth first from every state of total 0, each at its depth, over the edges that keep the totals.
    """
    states = len(total)
    steps = np.full(states, UNSEEN, np.int32)
    last = np.full(states, NO_EDGE, np.int32)
    source = np.full(states, UNSEEN, np.int32)
    queue = np.empty(states, np.int32)
    taken, waiting, fresh = 0, 0, 0
    while True:
        while fresh < states and (total[fresh] > 0 or steps[fresh] != UNSEEN):
            fresh += 1
        if fresh < states and (taken == waiting or depth[fresh] <= steps[queue[taken]]):
            state = fresh
            steps[state] = depth[state]
        elif taken < waiting:
            state = queue[taken]
            taken += 1
        else:
            return steps, last, source
        for edge in range(first[state], first[state + 1]):
            reached = target[edge]
            if steps[reached] == UNSEEN and total[state] + weight[edge] == total[reached]:
                steps[reached] = steps[state] + 1
                last[reached] = edge
                source[reached] = state
                queue[waiting] = reached
                waiting += 1
