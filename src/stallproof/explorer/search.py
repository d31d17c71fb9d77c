"""Breadth-first search: chunks are expanded in parallel and entered in order.

A state's id follows from the order of entering alone. So ids, counts and traces are the same for
every number of threads and every size of chunk, and the run that first reaches a state is a shortest.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stallproof.claims import Claim, Kind, Verdict
from stallproof.compiled import compiled
from stallproof.errors import UsageError
from stallproof.explorer.cycles import unfulfilled_loop
from stallproof.explorer.expansion import expand, packed_rows
from stallproof.explorer.model import MAX_CLAIMS, Int32s, Model, Successors, UInt64s
from stallproof.explorer.result import NO_LABEL, NO_STATE, Exploration, Finding, Progress, StateGraph
from stallproof.explorer.states import StateSet
from stallproof.explorer.traces import lasso, run_through


def explore(
    model: Model,
    *,
    max_states: int | None = None,
    threads: int | None = None,
    chunk_rows: int = 1 << 14,
    progress: Callable[[Progress], None] | None = None,
) -> Exploration:
    """Explore every state of ``model``, or the first ``max_states`` of them, and judge its claims.

    ``threads`` chunks of ``chunk_rows`` rows are expanded at once; ``None``: one per core.
    ``progress`` is called after each chunk. An exception of the model's passes through.
    """
    for name, value in (("max_states", max_states), ("threads", threads), ("chunk_rows", chunk_rows)):
        if value is not None and value < 1:
            raise UsageError(f"{name} is {value}", remedy="It must be at least 1.")
    if len(model.claims) > MAX_CLAIMS:
        raise UsageError(f"{len(model.claims)} claims", remedy=f"A model can have {MAX_CLAIMS}.")
    if len({claim.name for claim in model.claims}) < len(model.claims):
        raise UsageError("two claims have the same name", remedy="Findings are kept by name.")

    began = perf_counter()
    workers = threads or os.cpu_count() or 1
    search = Search(model, max_states)
    search.enter_initial()
    with ThreadPoolExecutor(workers) as pool:
        while search.expanded < search.states.count:
            level = search.next_level()
            with closing(expand(model, search.states, *level, chunk_rows, workers, pool)) as chunks:
                for first, end, successors in chunks:
                    search.enter(first, end, successors)
                    if progress is not None:
                        progress(search.progress(perf_counter() - began))
    graph = search.graph()
    findings = {
        claim.name: search.finding(graph, bit) if model.applicable[bit] else Finding(claim, Verdict.NOT_APPLICABLE, 0)
        for bit, claim in enumerate(model.claims)
    }
    return Exploration(
        **vars(graph),
        transitions=search.transitions,
        complete=search.complete,
        seconds=perf_counter() - began,
        fired=search.fired,
        findings=findings,
    )


class Sighting(NamedTuple):
    """The first transition that settles an always- or a sometimes-claim. Its source is least deep."""

    source: int
    label: int
    row: UInt64s


@compiled
def first_with(facts: UInt64s, wanted: np.uint64, begin: int) -> int:
    """The first index from ``begin`` on whose facts have a wanted bit, else the length."""
    for edge in range(begin, len(facts)):
        if facts[edge] & wanted:
            return edge
    return len(facts)


class Search:
    """A search on its way: the states, the edges chunk by chunk, and what was seen of the claims."""

    def __init__(self, model: Model, max_states: int | None) -> None:
        self.model = model
        self.states = StateSet(model.words, max_states)
        self.expanded = 0
        self.transitions = 0
        self.complete = True
        self.fired = np.zeros(0, np.int64)
        self.level_start: list[int] = []
        self.sightings: dict[int, Sighting] = {}
        self.unseen = sum(
            1 << bit
            for bit, claim in enumerate(model.claims)
            if model.applicable[bit] and claim.kind is not Kind.EVENTUALLY
        )
        self.degrees: list[Int32s] = []
        self.targets: list[Int32s] = []
        self.labels: list[Int32s] = []
        self.facts: list[UInt64s] = []

    def enter_initial(self) -> None:
        """Enter the initial states."""
        rows = packed_rows(self.model.initial_rows(), self.model.words)
        if not len(rows):
            raise UsageError("the model has no initial state", remedy="Every claim would hold of nothing.")
        ids = self.states.enter(rows, np.full(len(rows), NO_STATE, np.int32), np.full(len(rows), NO_LABEL, np.int32), 0)
        self.complete = bool((ids != NO_STATE).all())

    def next_level(self) -> tuple[int, int]:
        """The first state and the end of the level to be expanded next."""
        self.level_start.append(self.expanded)
        return self.expanded, self.states.count

    def enter(self, first: int, end: int, successors: Successors) -> None:
        """Enter the transitions out of states ``first`` to ``end``."""
        source, label, row, facts, fired = successors
        self._look_at_claims(first, successors)
        target = self.states.enter(row, source, label, first)
        kept = target != NO_STATE
        if not kept.all():
            self.complete = False
            source, label, target, facts = source[kept], label[kept], target[kept], facts[kept]
        self.degrees.append(np.bincount(source, minlength=end - first).astype(np.int32))
        self.targets.append(target)
        self.labels.append(label)
        self.facts.append(facts)
        self.fired = self.fired + fired if len(self.fired) else fired
        self.transitions += len(row)
        self.expanded = end

    def _look_at_claims(self, first: int, successors: Successors) -> None:
        """Note the transitions that settle a claim not settled before, known target or not."""
        source, label, row, facts, _ = successors
        edge = 0
        while self.unseen:
            edge = first_with(facts, np.uint64(self.unseen), edge)
            if edge == len(facts):
                return
            sighting = Sighting(first + int(source[edge]), int(label[edge]), row[edge].copy())
            seen = int(facts[edge]) & self.unseen
            self.sightings |= {bit: sighting for bit in range(MAX_CLAIMS) if seen >> bit & 1}
            self.unseen &= ~seen

    def progress(self, seconds: float) -> Progress:
        """How far the search is."""
        found = self.states.count
        return Progress(found, self.transitions, len(self.level_start) - 1, found - self.expanded, seconds)

    def graph(self) -> StateGraph:
        """The explored graph. The chunks are let go one array at a time, to spare memory."""
        count = self.states.count
        first_edge = np.zeros(count + 1, np.int64)
        np.cumsum(_joined(self.degrees), out=first_edge[1:])
        return StateGraph(
            rows=self.states.rows[:count],
            parent=self.states.parent[:count],
            parent_label=self.states.parent_label[:count],
            level_start=np.array([*self.level_start, count], np.int64),
            first_edge=first_edge,
            target=_joined(self.targets),
            label=_joined(self.labels),
            facts=_joined(self.facts),
        )

    def finding(self, graph: StateGraph, bit: int) -> Finding:
        """What became of the applicable claim of this bit."""
        claim = self.model.claims[bit]
        trace = None
        if claim.kind is Kind.EVENTUALLY:
            loop = unfulfilled_loop(graph, bit, self.model.fairness)
            trace = None if loop is None else lasso(graph, loop)
        elif bit in self.sightings:
            trace = run_through(graph, *self.sightings[bit])
        return Finding(claim, self._verdict(claim, trace is not None), graph.states, trace)

    def _verdict(self, claim: Claim, shown: bool) -> Verdict:
        """What a claim's trace, or the lack of one, says: a trace of a part of the states is real."""
        if shown:
            return Verdict.HOLDS if claim.kind is Kind.SOMETIMES else Verdict.VIOLATED
        if not self.complete:
            return Verdict.BOUND_REACHED
        return Verdict.VIOLATED if claim.kind is Kind.SOMETIMES else Verdict.HOLDS


def _joined(chunks: list[NDArray[Any]]) -> NDArray[Any]:
    """The chunks as one array; they are gone from the list."""
    whole = np.concatenate(chunks)
    chunks.clear()
    return whole
