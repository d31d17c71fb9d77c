"""Following one request through the explored states: what each pass does to it, and the graph of (state, row).

A state has no names: a request is a row, and moves down when one before it leaves. A node of the
graph here is a state and the row of the request that is followed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stallproof.compiled import compiled, compiled_in_place
from stallproof.explorer import Exploration
from stallproof.explorer.model import Bools, Int32s, Int64s, UInt64s
from stallproof.model import Kind, LifecycleModel, Move, run_pass
from stallproof.packing import number_live, unpack
from stallproof.policies.interface import Rules
from stallproof.requests import FINISHED
from stallproof.tiers import RECOMPUTE_PAUSE, SUSPEND
from stallproof.witness import Step

NOBODY_LEAVES = -1


class Passes(NamedTuple):
    """What the one pass out of each state does."""

    live: Int32s  # [states] requests before it
    finishes: Bools  # [states, rows] of which these finish in it
    suspensions: Int64s  # [states, rows]
    recompute_pauses: Int64s  # [states, rows]
    recomputed: Int64s  # [states] computed tokens that are lost, to be computed again
    delivered: Int64s  # [states] tokens generated


class Followed(NamedTuple):
    """The graph over states and rows; the last node stands for "finished in a pass"."""

    first: Int32s  # [nodes + 1] as StateGraph.first_edge
    target: Int32s  # [edges]
    edge: Int64s  # [edges] the explored transition
    state: Int32s  # [nodes - 1]
    row: Int32s  # [nodes - 1]
    depth: Int32s  # [nodes] of the state; ascending


def passes_of(model: LifecycleModel, states: UInt64s) -> Passes:
    """Run the pass of each state (``[states, words]``) once more, and note what it does to whom."""
    shape = (len(states), model.bounds.live)
    passes = Passes(
        live=np.zeros(len(states), np.int32),
        finishes=np.zeros(shape, np.bool_),
        suspensions=np.zeros(shape, np.int64),
        recompute_pauses=np.zeros(shape, np.int64),
        recomputed=np.zeros(len(states), np.int64),
        delivered=np.zeros(len(states), np.int64),
    )
    note_passes(states, model.policy.rules, model.new_step(), passes)
    return passes


@compiled_in_place
def note_passes(states: UInt64s, rules: Rules, step: Step, passes: Passes) -> None:
    """Fill ``passes``."""
    for state in range(len(states)):
        unpack(states[state], step.before, step.tiers_before)
        passes.live[state] = number_live(step.before)
        run_pass(step, rules, 0)
        for r in range(passes.live[state]):
            passes.finishes[state, r] = step.after.phase[r] == FINISHED
            passes.delivered[state] += step.after.tokens[r] - step.before.tokens[r]
        for k in range(step.plan.operations[0]):
            r = step.plan.request[k]
            if step.plan.event[k] == SUSPEND:
                passes.suspensions[state, r] += 1
            elif step.plan.event[k] == RECOMPUTE_PAUSE:
                passes.recompute_pauses[state, r] += 1
                passes.recomputed[state] += step.before.computed[r]


def leavers(labels: Int32s) -> Int32s:
    """Per transition, the row that leaves because it is stopped or cancelled, or ``NOBODY_LEAVES``."""
    row_of_label = np.full(int(labels.max(initial=0)) + 1, NOBODY_LEAVES, np.int32)
    for label in np.flatnonzero(np.bincount(labels)):
        move = Move.of_label(int(label))
        if move.kind in (Kind.STOP, Kind.CANCEL):
            row_of_label[label] = move.request
    return row_of_label[labels]


def follow(exploration: Exploration, passes: Passes, keep: Bools, rows: int) -> Followed:
    """The graph over the requests in the first ``rows`` rows, along the transitions in ``keep`` (``bool[edges]``).

    Being stopped or cancelled ends a request's story, and is no edge.
    """
    node = np.zeros(exploration.states + 1, np.int32)
    np.cumsum(np.minimum(passes.live, rows), out=node[1:])
    first, target, edge = follow_edges(
        exploration.first_edge,
        exploration.target,
        keep,
        exploration.system_steps,
        leavers(exploration.label),
        passes.finishes,
        node,
    )
    state = np.repeat(np.arange(exploration.states, dtype=np.int32), np.diff(node))
    never = np.array([np.iinfo(np.int32).max], np.int32)
    return Followed(
        first=first,
        target=target,
        edge=edge,
        state=state,
        row=(np.arange(len(state)) - node[state]).astype(np.int32),
        depth=np.concatenate([exploration.depths[state], never]),
    )


@compiled
def follow_edges(
    first_edge: Int64s, target: Int32s, keep: Bools, is_pass: Bools, leaver: Int32s, finishes: Bools, node: Int32s
) -> tuple[Int32s, Int32s, Int64s]:
    """The first three arrays of :class:`Followed`. ``node``: the number of a state's row 0."""
    states = len(node) - 1
    finished = node[states]
    room = 0
    for state in range(states):
        room += (node[state + 1] - node[state]) * (first_edge[state + 1] - first_edge[state])
    first = np.zeros(finished + 2, np.int32)
    reached = np.empty(room, np.int32)
    edges = np.empty(room, np.int64)
    count = 0
    for state in range(states):
        for r in range(node[state + 1] - node[state]):
            for edge in range(first_edge[state], first_edge[state + 1]):
                if not keep[edge] or leaver[edge] == r:
                    continue
                row = r
                if is_pass[edge]:
                    for before in range(r):
                        row -= finishes[state, before]
                elif 0 <= leaver[edge] < r:
                    row -= 1
                ends = is_pass[edge] and finishes[state, r]
                reached[count] = finished if ends else node[target[edge]] + row
                edges[count] = edge
                count += 1
            first[node[state] + r + 1] = count
    first[finished + 1] = count
    return first, reached[:count], edges[:count]
