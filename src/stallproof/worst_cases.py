"""Exact worst cases over all runs within the bounds, each with a run that shows it.

The environment is an adversary: it lets whatever it likes arrive, stop or be cancelled. "Draining"
means that it does nothing any more, so that only passes follow. Some worst cases are unbounded; then
the run is a lasso round which the count grows for ever.

One request can be preempted only a bounded number of times if the oldest always finishes: a cycle
that keeps a request keeps all that are older, and a preemption makes it a cycle with a pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from stallproof.compiled import compiled
from stallproof.explorer import (
    Exploration,
    greatest_ratio,
    longest_run,
    loop_through,
    path_to,
    subgraph,
)
from stallproof.explorer.model import Bools, Int32s, Int64s
from stallproof.explorer.paths import topological_order
from stallproof.following import Followed, Passes, follow, passes_of
from stallproof.model import Kind, LifecycleModel, Move
from stallproof.traces import Run, run_as_json, run_of

SENTENCES = {
    "passes_to_drain": "Passes until nobody is left, draining.",
    "passes_until_oldest_finishes": "Passes until the oldest request finishes, whatever the others do.",
    "passes_of_one_request": "Passes from a request's arrival until it finishes, whatever the others do.",
    "preemptions_of_one_request": "Suspensions and recompute-pauses of one request, whatever the others do.",
    "suspensions_of_one_request": "Suspensions of one request, whatever the others do.",
    "recompute_pauses_of_one_request": "Recompute-pauses of one request, whatever the others do.",
    "preemptions_draining": "Suspensions and recompute-pauses of one request, draining.",
    "recomputed_per_token": "Tokens computed again per token generated, for ever, with nobody cancelled.",
    "recomputed_per_token_draining": "Tokens computed again per token generated, draining to the end.",
}
"""What is counted, by name."""

CHEAP = ("passes_to_drain", "passes_until_oldest_finishes")
"""Those that cost little beside the search."""


@dataclass(frozen=True)
class WorstCase:
    """One worst case. ``value``: the exact maximum, or None if there is none: it is unbounded.

    ``moves`` is a run that shows it, counted after its first ``counted_from`` moves; with ``loop_start``,
    round the loop. ``row``: of the request that is followed, after ``counted_from`` moves; None if the
    count is about all.
    """

    name: str
    value: int | Fraction | None
    moves: tuple[Move, ...]
    counted_from: int
    loop_start: int | None = None
    row: int | None = None
    model: LifecycleModel = field(repr=False, compare=False, kw_only=True)

    @property
    def sentence(self) -> str:
        """What is counted."""
        return SENTENCES[self.name]

    @cached_property
    def run(self) -> Run:
        """The run, replayed."""
        return run_of(self.model, self.moves, self.loop_start)

    @property
    def request(self) -> int:
        """Arrival number, from 1, of the request that is followed; 0 if the count is about all."""
        return 0 if self.row is None else self.run.moments[self.counted_from - 1].requests[self.row].number

    @property
    def number(self) -> int | float | None:
        """The value as a plain number, ratios rounded to six digits."""
        return round(float(self.value), 6) if isinstance(self.value, Fraction) else self.value

    def as_json(self) -> dict[str, Any]:
        """Plain values for a JSON file; the exact value as numerator and denominator."""
        exact = None if self.value is None else [self.value.numerator, self.value.denominator]
        counted = {"value": exact, "counted_from": self.counted_from, "request": self.request}
        return {"worst_case": self.name, "sentence": self.sentence} | counted | run_as_json(self.run)


def worst_cases(
    model: LifecycleModel, exploration: Exploration, names: Iterable[str] = tuple(SENTENCES)
) -> tuple[WorstCase, ...]:
    """The worst cases of these names, in their order; none if the exploration was cut off.

    None either with lookahead, priorities or copies that take time: there a state has several passes, a
    request moves back when another arrives, and passes may go on while nothing happens.
    """
    bounds = model.bounds
    if not exploration.complete or bounds.lookahead or bounds.priorities > 1 or bounds.copies:
        return ()
    search = _Search(model, exploration)
    return tuple(getattr(search, name)() for name in names)


class _Search:
    """One explored model. A method a worst case, by name."""

    def __init__(self, model: LifecycleModel, exploration: Exploration) -> None:
        self.model, self.graph = model, exploration
        self.all = np.ones(len(exploration.target), np.bool_)
        self.is_pass = exploration.system_steps

    # -- what they are made of ----------------------------------------------------------------------

    @cached_property
    def source(self) -> Int32s:
        """``[edges]``: the state each transition leaves."""
        return np.repeat(np.arange(self.graph.states, dtype=np.int32), np.diff(self.graph.first_edge))

    @cached_property
    def busy(self) -> Bools:
        """``[edges]``: passes over somebody; one over nobody counts for nothing."""
        return self.is_pass & (self.graph.rows[self.source] != 0).any(axis=1)

    @cached_property
    def passes(self) -> Passes:
        """What the pass out of each state does."""
        return passes_of(self.model, self.graph.rows)

    @cached_property
    def any_request(self) -> Followed:
        """Every request, from its arrival to its end."""
        return follow(self.graph, self.passes, self.all, self.model.bounds.live)

    def of_passes(self, amount: Int64s) -> Int64s:
        """``[edges]``: ``amount`` (``[states]``) of the state that a pass leaves; 0 of what is no pass."""
        return np.where(self.is_pass, amount[self.source], 0)

    # -- the nine -----------------------------------------------------------------------------------

    def passes_to_drain(self) -> WorstCase:
        graph, keep = self.graph, self.busy
        first, target, edges = subgraph(graph.first_edge, graph.target, keep, np.ones(graph.states, np.bool_))
        run = longest_run(first, target, np.ones(len(edges), np.int64), graph.depths)
        if run is None:
            loop = loop_through(graph.first_edge, graph.target, keep, self.all)
            return self.shown("passes_to_drain", None, *self.round(loop))
        return self.shown("passes_to_drain", run.weight, run.start, edges[list(run.edges)])

    def passes_until_oldest_finishes(self) -> WorstCase:
        followed = follow(self.graph, self.passes, self.all, rows=1)
        return self.greatest("passes_until_oldest_finishes", followed, None)

    def passes_of_one_request(self) -> WorstCase:
        return self.greatest("passes_of_one_request", self.any_request, None)

    def preemptions_of_one_request(self) -> WorstCase:
        both = self.passes.suspensions + self.passes.recompute_pauses
        return self.greatest("preemptions_of_one_request", self.any_request, both)

    def suspensions_of_one_request(self) -> WorstCase:
        return self.greatest("suspensions_of_one_request", self.any_request, self.passes.suspensions)

    def recompute_pauses_of_one_request(self) -> WorstCase:
        return self.greatest("recompute_pauses_of_one_request", self.any_request, self.passes.recompute_pauses)

    def preemptions_draining(self) -> WorstCase:
        followed = follow(self.graph, self.passes, self.is_pass, self.model.bounds.live)
        both = self.passes.suspensions + self.passes.recompute_pauses
        return self.greatest("preemptions_draining", followed, both)

    def recomputed_per_token(self) -> WorstCase:
        cancels = [int(label) for label in np.flatnonzero(np.bincount(self.graph.label)) if _cancels(int(label))]
        ratio = greatest_ratio(
            self.graph.first_edge,
            self.graph.target,
            ~np.isin(self.graph.label, cancels),
            self.of_passes(self.passes.recomputed),
            self.of_passes(self.passes.delivered),
        )
        if ratio is None:  # nobody ever generates a token
            return self.shown("recomputed_per_token", Fraction(0), 0, ())
        value = Fraction(ratio.gain, ratio.cost) if ratio.cost else None
        return self.shown("recomputed_per_token", value, *self.round(ratio.loop))

    def recomputed_per_token_draining(self) -> WorstCase:
        pass_edge = np.flatnonzero(self.is_pass)  # one a state
        following = self.graph.target[pass_edge]
        order = topological_order(self.graph.first_edge, self.graph.target, self.busy)
        passes = self.passes
        recomputed, delivered = drained(order, following, passes.live, passes.recomputed, passes.delivered)
        # Equal fractions are equal floats, and small ones that differ, differ: the first greatest is least deep.
        start = int(np.argmax(recomputed / np.maximum(delivered, 1)))
        edges = []
        state = start
        while self.passes.live[state] > 0 and delivered[start] > 0:
            edges.append(int(pass_edge[state]))
            state = int(following[state])
        value = Fraction(int(recomputed[start]), max(int(delivered[start]), 1))
        return self.shown("recomputed_per_token_draining", value, start, edges)

    # -- runs ---------------------------------------------------------------------------------------

    def greatest(self, name: str, followed: Followed, amount: Int64s | None) -> WorstCase:
        """The most of ``amount`` (``[states, rows]``; None: 1 a pass) that passes can bring a followed request."""
        node = np.repeat(np.arange(len(followed.first) - 1), np.diff(followed.first))
        of_node = np.ones(len(node), np.int64)
        if amount is not None:
            of_node = amount[followed.state[node], followed.row[node]]
        weight = np.where(self.is_pass[followed.edge], of_node, 0)
        run = longest_run(followed.first, followed.target, weight, followed.depth)
        if run is not None:
            edges = followed.edge[list(run.edges)]
            return self.shown(name, run.weight, int(followed.state[run.start]), edges, row=int(followed.row[run.start]))
        everything = np.ones(len(weight), np.bool_)
        loop = loop_through(followed.first.astype(np.int64), followed.target, everything, weight > 0)
        assert loop is not None  # a cycle has weight, or there were a heaviest run
        return self.shown(name, None, *self.round(followed.edge[loop]), row=int(followed.row[node[loop[0]]]))

    def round(self, loop: Sequence[int] | Int64s | None) -> tuple[int, Sequence[int] | Int64s, bool]:
        """The arguments of :meth:`shown` for a lasso."""
        assert loop is not None
        return self.graph.source_of(int(loop[0])), loop, True

    def shown(
        self,
        name: str,
        value: int | Fraction | None,
        start: int,
        edges: Sequence[int] | Int64s,
        loops: bool = False,
        row: int | None = None,
    ) -> WorstCase:
        """The worst case with the run to ``start`` and over ``edges`` from there."""
        stem = [Move.of_label(step.label) for step in path_to(self.graph, start)[1:]]
        rest = [Move.of_label(int(self.graph.label[edge])) for edge in edges]
        loop_start = len(stem) if loops else None
        return WorstCase(name, value, (*stem, *rest), len(stem), loop_start, row, model=self.model)


def _cancels(label: int) -> bool:
    return Move.of_label(label).kind is Kind.CANCEL


@compiled
def drained(
    order: Int32s, following: Int32s, live: Int32s, recomputed: Int64s, delivered: Int64s
) -> tuple[Int64s, Int64s]:
    """Per state, the sums of both over the passes until nobody is left; 0 and 0 where they never end.

    ``following``: the state after the pass of each. ``order``: all states that are not gone round
    for ever, each before the one that follows.
    """
    ends = np.zeros(len(following), np.bool_)
    all_recomputed = np.zeros(len(following), np.int64)
    all_delivered = np.zeros(len(following), np.int64)
    for k in range(len(order) - 1, -1, -1):
        state = order[k]
        after = following[state]
        ends[state] = live[state] == 0 or ends[after]
        if live[state] > 0 and ends[state]:
            all_recomputed[state] = all_recomputed[after] + recomputed[state]
            all_delivered[state] = all_delivered[after] + delivered[state]
    return all_recomputed, all_delivered
