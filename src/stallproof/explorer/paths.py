"""Orders and subgraphs: what the cycle search and the longest run share."""

from __future__ import annotations

import numpy as np

from stallproof.compiled import compiled
from stallproof.explorer.model import Bools, Int32s, Int64s


@compiled
def topological_order(first_edge: Int64s, target: Int32s, keep: Bools) -> Int32s:
    """The states that no cycle of kept edges leads to, every kept edge from earlier to later.

    A state on a cycle, or behind one, is left out; with no cycle all states are there.
    """
    states = len(first_edge) - 1
    waiting = np.zeros(states, np.int32)
    for edge in range(len(target)):
        if keep[edge]:
            waiting[target[edge]] += 1
    order = np.empty(states, np.int32)
    ready = 0
    for state in range(states):
        if waiting[state] == 0:
            order[ready] = state
            ready += 1
    done = 0
    while done < ready:
        state = order[done]
        done += 1
        for edge in range(first_edge[state], first_edge[state + 1]):
            if keep[edge]:
                reached = target[edge]
                waiting[reached] -= 1
                if waiting[reached] == 0:
                    order[ready] = reached
                    ready += 1
    return order[:ready]


@compiled
def subgraph(first_edge: Int64s, target: Int32s, keep: Bools, inside: Bools) -> tuple[Int32s, Int32s, Int64s]:
    """The kept edges between the ``inside`` states, with those states renumbered in their order.

    Returns ``first_edge`` and ``target`` in new numbers, then the edges' ids.
    """
    number = np.full(len(inside), -1, np.int32)
    members = np.empty(int(np.sum(inside)), np.int32)
    count = 0
    room = 0
    for state in range(len(inside)):
        if inside[state]:
            number[state] = count
            members[count] = state
            count += 1
            room += first_edge[state + 1] - first_edge[state]
    first = np.zeros(count + 1, np.int32)
    reached = np.empty(room, np.int32)
    edges = np.empty(room, np.int64)
    kept = 0
    for new in range(count):
        for edge in range(first_edge[members[new]], first_edge[members[new] + 1]):
            if keep[edge] and inside[target[edge]]:
                reached[kept] = number[target[edge]]
                edges[kept] = edge
                kept += 1
        first[new + 1] = kept
    return first, reached[:kept], edges[:kept]
