"""The least stem + loop of any lasso that refutes an eventually-property, by trying every state."""

from __future__ import annotations

from collections import deque

import networkx as nx
import numpy as np

from stallproof.bounds import Bounds
from stallproof.explorer import SYSTEM_STEP, explore
from stallproof.model import LifecycleModel
from stallproof.policies import Policy
from stallproof.properties import PROPERTIES


def least_lasso(policy: Policy, bounds: Bounds, name: str) -> int | None:
    """Steps of the least lasso for property ``name``, or None. A breadth-first search from each state on a cycle."""
    bit = [claim.name for claim in PROPERTIES].index(name)
    graph = explore(LifecycleModel(policy, bounds))
    source = np.repeat(np.arange(graph.states), np.diff(graph.first_edge))
    kept = np.flatnonzero(graph.facts >> np.uint64(bit) & np.uint64(1))
    successors: dict[int, set[tuple[int, bool]]] = {}
    for edge in kept:
        is_pass = bool(graph.facts[edge] >> np.uint64(SYSTEM_STEP))
        successors.setdefault(int(source[edge]), set()).add((int(graph.target[edge]), is_pass))
    whole = nx.DiGraph((state, target) for state, edges in successors.items() for target, _ in edges)
    best = None
    for component in nx.strongly_connected_components(whole):
        inside = {s: [(t, p) for t, p in successors.get(s, ()) if t in component] for s in component}
        if not any(is_pass for edges in inside.values() for _, is_pass in edges):
            continue
        for state in sorted(component):
            stem = graph.depth_of(state)
            if best is not None and stem + 1 > best:
                break
            loop = _shortest_loop(inside, state)
            if loop is not None and (best is None or stem + loop < best):
                best = stem + loop
    return best


def _shortest_loop(successors: dict[int, list[tuple[int, bool]]], start: int) -> int | None:
    distance = {(start, False): 0}
    queue = deque([(start, False)])
    while queue:
        state, passed = queue.popleft()
        for target, is_pass in successors[state]:
            reached = (target, passed or is_pass)
            if reached == (start, True):
                return distance[state, passed] + 1
            if reached not in distance:
                distance[reached] = distance[state, passed] + 1
                queue.append(reached)
    return None
