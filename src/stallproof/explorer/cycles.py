"""Eventually-claims: a fair cycle that leaves the claim unfulfilled for ever.

Fair: each of the model's marks occurs on it, a step of the system among them.

The strongly connected components are found by Tarjan's algorithm, compiled: scipy 1.17's never ends
on a graph with two edges from one state to another, and is slower on the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stallproof.compiled import compiled
from stallproof.explorer.model import Bools, Int32s, Int64s
from stallproof.explorer.paths import subgraph, topological_order
from stallproof.explorer.result import StateGraph

UNSEEN = -1
NOWHERE = -1


@compiled
def strong_components(first: Int32s, target: Int32s) -> Int32s:
    """Per state, the number of its strongly connected component, counted down from the largest int32.

    Until its component is known, a state holds the earliest visit it is known to lead back to. Every
    component's number is later than any visit, so the smaller of the two is always the right one.
    """
    states = len(first) - 1
    earliest = np.full(states, UNSEEN, np.int32)
    visit = np.empty(states, np.int32)
    next_edge = first[:-1].copy()
    path = np.empty(states, np.int32)
    undecided = np.empty(states, np.int32)
    visits, pending = 0, 0
    component = np.iinfo(np.int32).max
    for root in range(states):
        if earliest[root] != UNSEEN:
            continue
        path[0] = root
        depth = 0
        while depth >= 0:
            state = path[depth]
            if earliest[state] == UNSEEN:
                earliest[state] = visit[state] = visits
                visits += 1
                undecided[pending] = state
                pending += 1
            edge = next_edge[state]
            if edge < first[state + 1]:
                reached = target[edge]
                if earliest[reached] == UNSEEN:
                    depth += 1
                    path[depth] = reached
                else:
                    earliest[state] = min(earliest[state], earliest[reached])
                    next_edge[state] = edge + 1
                continue
            if earliest[state] == visit[state]:
                while earliest[state] != component:
                    pending -= 1
                    earliest[undecided[pending]] = component
                component -= 1
            depth -= 1
    return earliest


@compiled
def refuting_state(first: Int32s, target: Int32s, marks: Int32s, every_mark: int, component: Int32s) -> int:
    """The first state that is on a cycle with every mark, or ``NOWHERE``."""
    marked = np.zeros(len(component), np.int32)
    highest = np.iinfo(np.int32).max
    for state in range(len(component)):
        for edge in range(first[state], first[state + 1]):
            if component[target[edge]] == component[state]:
                marked[highest - component[state]] |= marks[edge]
    for state in range(len(component)):
        if marked[highest - component[state]] == every_mark:
            return state
    return NOWHERE


@compiled
def shortest_loop(first: Int32s, target: Int32s, marks: Int32s, every_mark: int, start: int) -> Int32s:
    """The edges of a shortest cycle through ``start`` that has every mark; there must be one.

    Searched breadth first over pairs of a state and the marks met on the way.
    """
    sets = every_mark + 1
    came_from = np.full(sets * (len(first) - 1), UNSEEN, np.int32)
    came_by = np.empty(len(came_from), np.int32)
    queue = np.empty(len(came_from) + 1, np.int32)
    queue[0] = sets * start
    taken, waiting = 0, 1
    goal = sets * start + every_mark
    while came_from[goal] == UNSEEN:
        pair = queue[taken]
        taken += 1
        for edge in range(first[pair // sets], first[pair // sets + 1]):
            reached = sets * target[edge] + (pair % sets | marks[edge])
            if came_from[reached] == UNSEEN:
                came_from[reached] = pair
                came_by[reached] = edge
                queue[waiting] = reached
                waiting += 1
    edges = [came_by[goal]]
    pair = came_from[goal]
    while pair != sets * start:
        edges.append(came_by[pair])
        pair = came_from[pair]
    return np.array(edges[::-1])


def loop_through(first_edge: Int64s, target: Int32s, keep: Bools, wanted: Bools) -> list[int] | None:
    """The ids of the edges of a cycle of kept edges, a wanted one among them; ``None``: there is none.

    ``keep`` and ``wanted`` are ``bool[edges]``. See :func:`marked_loop`.
    """
    return marked_loop(first_edge, target, keep, wanted.astype(np.int32), 1)


def marked_loop(first_edge: Int64s, target: Int32s, keep: Bools, marks: Int32s, every_mark: int) -> list[int] | None:
    """The ids of the edges of a cycle of kept edges that together have every mark; ``None``: there is none.

    It starts at the first state on any such cycle, and no such cycle through that state is shorter.
    ``keep`` is ``bool[edges]``, ``marks`` a set of bits an edge.
    """
    if not keep.any():
        return None
    inside = np.ones(len(first_edge) - 1, np.bool_)
    inside[topological_order(first_edge, target, keep)] = False
    if not inside.any():
        return None
    first, reached, edges = subgraph(first_edge, target, keep, inside)
    kept = marks[edges]
    if np.bitwise_or.reduce(kept, initial=0) != every_mark:
        return None
    start = refuting_state(first, reached, kept, every_mark, strong_components(first, reached))
    if start == NOWHERE:
        return None
    return [int(edge) for edge in edges[shortest_loop(first, reached, kept, every_mark, start)]]


def unfulfilled_loop(graph: StateGraph, claim: int, fairness: Sequence[int]) -> list[int] | None:
    """The edge ids of a cycle that refutes the eventually-claim of bit ``claim``; ``None``: there is none.

    Each bit of ``fairness`` occurs on it. It starts at the least deep state (of these, the first found) on
    any such cycle, and no such cycle through that state is shorter.
    """
    unfulfilled = (graph.facts & np.uint64(1 << claim)) != 0
    if not unfulfilled.any():
        return None
    marks = np.zeros(len(graph.facts), np.int32)
    for mark, bit in enumerate(fairness):
        marks |= (graph.facts >> np.uint64(bit) & np.uint64(1)).astype(np.int32) << mark
    return marked_loop(graph.first_edge, graph.target, unfulfilled, marks, (1 << len(fairness)) - 1)
