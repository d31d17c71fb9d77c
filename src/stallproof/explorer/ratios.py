"""The greatest ratio of two weights round a cycle: what the worst run pays per unit gained, for ever.

Dinkelbach's method: for a guess ``p / q`` some cycle of weight ``q * gain - p * cost`` above 0 has a
greater ratio, and its ratio is the next guess. If there is none, the guess is exact, and the
potentials of the search prove it: no edge leads to a state by more than their difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from stallproof.compiled import compiled
from stallproof.explorer.cycles import UNSEEN, loop_through, strong_components
from stallproof.explorer.model import Bools, Int32s, Int64s
from stallproof.explorer.paths import subgraph


@dataclass(frozen=True)
class GreatestRatio:
    """``gain`` over ``cost``, in lowest terms, and the edges of a cycle that has it. Without bound: ``cost`` is 0."""

    gain: int
    cost: int
    loop: tuple[int, ...]


def greatest_ratio(first_edge: Int64s, target: Int32s, keep: Bools, gain: Int64s, cost: Int64s) -> GreatestRatio | None:
    """The greatest gain per cost round any cycle of kept edges. ``None`` if no such cycle gains or costs anything.

    ``first_edge`` and ``target`` as in :class:`StateGraph`; ``keep`` is ``bool[edges]``, ``gain`` and ``cost``
    are ``int64[edges]`` and never negative. The loop is a shortest through the first state on any that has the ratio.
    """
    free = loop_through(first_edge, target, keep & (cost == 0), gain > 0)
    if free is not None:
        return GreatestRatio(1, 0, tuple(free))

    first, reached, edges = subgraph(first_edge, target, keep, np.ones(len(first_edge) - 1, np.bool_))
    component = strong_components(first, reached)
    inner = component[np.repeat(np.arange(len(component)), np.diff(first))] == component[reached]
    recurring = np.zeros(len(target), np.bool_)
    recurring[edges[inner]] = True
    first, reached, edges = subgraph(first_edge, target, recurring, np.ones(len(first_edge) - 1, np.bool_))

    p, q = 0, 1
    while True:
        potential = np.zeros(len(first) - 1, np.int64)
        better = rising_cycle(first, reached, q * gain[edges] - p * cost[edges], potential)
        if not len(better):
            break
        gained, paid = int(gain[edges[better]].sum()), int(cost[edges[better]].sum())
        p, q = gained // gcd(gained, paid), paid // gcd(gained, paid)

    source = np.repeat(np.arange(len(potential)), np.diff(first))
    tight = potential[source] + q * gain[edges] - p * cost[edges] == potential[reached]
    best = np.zeros(len(target), np.bool_)
    best[edges[tight]] = True
    loop = loop_through(first_edge, target, best, cost > 0)
    return None if loop is None else GreatestRatio(p, q, tuple(loop))


@compiled
def rising_cycle(first: Int32s, target: Int32s, weight: Int64s, potential: Int64s) -> Int32s:
    """The edges of a cycle of weight above 0 (Bellman-Ford). Or none: then no edge outdoes the potentials."""
    states = len(potential)
    raised_by = np.full(states, UNSEEN, np.int32)
    raised_from = np.full(states, UNSEEN, np.int32)
    walk = np.empty(states, np.int32)
    rising = True
    while rising:
        rising = False
        for state in range(states):
            for edge in range(first[state], first[state + 1]):
                if potential[state] + weight[edge] > potential[target[edge]]:
                    potential[target[edge]] = potential[state] + weight[edge]
                    raised_by[target[edge]] = edge
                    raised_from[target[edge]] = state
                    rising = True
        # A cycle of states that raised each other has weight above 0, and any such cycle leads to one.
        walk[:] = UNSEEN
        for start in range(states):
            state = start
            while state != UNSEEN and walk[state] == UNSEEN:
                walk[state] = start
                state = raised_from[state]
            if state != UNSEEN and walk[state] == start:
                edges = [raised_by[state]]
                at = raised_from[state]
                while at != state:
                    edges.append(raised_by[at])
                    at = raised_from[at]
                return np.array(edges[::-1])
    return np.empty(0, np.int32)
