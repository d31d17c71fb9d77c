"""What a scheduler owes, over the explored contract, and the claims of ``spec/RequestLifecycle.tla`` that need it.

The explorer's own eventually-claims know no fairness. :func:`fair_run` does: it looks for an infinite run that
keeps what a scheduler owes and never fulfils a claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from model_checking.contract import Bools, ContractModel, Ints, is_live, unpack
from stallproof.explorer import StateGraph
from stallproof.explorer.cycles import strong_components
from stallproof.lifecycle import Event, Phase


class Fairness(NamedTuple):
    """What a run keeps: if it meets one of these states or edges for ever, then also one of those."""

    if_states: Bools
    if_edges: Bools
    then_states: Bools
    then_edges: Bools


class Facts:
    """What the assumptions and claims of the TLA+ module say about an explored contract, as :class:`Fairness`."""

    def __init__(self, model: ContractModel, graph: StateGraph) -> None:
        self.model, self.graph = model, graph
        self.requests = range(model.constants.requests)
        self.states = unpack(graph.rows)
        self.event, self.request = graph.label & 15, graph.label >> 4 & 15
        self.source = np.repeat(np.arange(graph.states), np.diff(graph.first_edge))
        self.no_states, self.no_edges = np.zeros(graph.states, np.bool_), np.zeros(len(graph.label), np.bool_)

    def edges_of(self, r: int, *events: Event) -> Bools:
        """The steps in which one of the events happens to request ``r``."""
        return np.isin(self.event, events) & (self.request == r)

    def can(self, r: int, *events: Event) -> Bools:
        """The states in which one of the events can happen to request ``r``."""
        return np.bincount(self.source[self.edges_of(r, *events)], minlength=self.graph.states) > 0

    def strong(self, r: int, *events: Event) -> Fairness:
        """What can happen again and again happens again and again."""
        return Fairness(self.can(r, *events), self.no_edges, self.no_states, self.edges_of(r, *events))

    def weak(self, r: int, *events: Event) -> Fairness:
        """What can happen all the time happens again and again."""
        return Fairness(~self.no_states, self.no_edges, ~self.can(r, *events), self.edges_of(r, *events))

    def room(self, r: int) -> Fairness:
        """The pages that ``r`` lacks are free again and again."""
        s, pages = self.states, self.model.pages
        admits = np.isin(s.phase[:, r], (Phase.WAITING, Phase.RECOMPUTE_PAUSED))
        grows = (s.phase[:, r] == Phase.ACTIVE) & (s.left[:, r] > 0) & (pages(s.computed[:, r] + 1) > s.gpu[:, r])
        lacking = np.where(s.phase[:, r] == Phase.SUSPENDED, s.host[:, r], admits | grows)
        return Fairness(~self.no_states, self.no_edges, lacking <= s.free_gpu, self.no_edges)

    def patience(self, r: int, *events: Event) -> Fairness:
        """If the events happen to ``r`` again and again, it finishes again and again."""
        finished = self.states.phase[:, r] == Phase.FINISHED
        return Fairness(self.no_states, self.edges_of(r, *events), finished, self.no_edges)

    def assumptions(self, name: str) -> list[Fairness]:
        """Those of a specification of ``MCRequestLifecycle.tla``."""
        takes = (Event.ADMIT, Event.GROW, Event.RESUME)
        given_up = (Event.SUSPEND, Event.RECOMPUTE_PAUSE)
        computing = [self.weak(r, event) for r in self.requests for event in (Event.SCHEDULE, Event.FINISH)]
        service = computing + [self.strong(r, *takes) for r in self.requests]
        weak_service = computing + [self.weak(r, *takes) for r in self.requests]
        room = [self.room(r) for r in self.requests]
        patience = [self.patience(r, *given_up) for r in self.requests]
        lesser = [self.patience(r, Event.RECOMPUTE_PAUSE) for r in self.requests]
        return {
            "Lifecycle": [],
            "Spec": service + room + patience,
            "WithoutPatience": service + room,
            "WithoutRoom": service + patience,
            "WithWeakService": weak_service + room + patience,
            "WithEndlessSuspension": service + room + lesser,
        }[name]

    def refutations(self, name: str) -> Iterable[tuple[Bools, list[Fairness]]]:
        """For a claim of the TLA+ module: the states a refuting run may stay in, and what it meets for ever."""
        if name == "FinishingStops":
            everywhere, steps = ~self.no_states, [self.edges_of(r, Event.FINISH) for r in self.requests]
            yield everywhere, [Fairness(everywhere, self.no_edges, self.no_states, finishes) for finishes in steps]
        for r in self.requests:
            if name == "EveryRequestFinishes":
                yield is_live(self.states.phase[:, r]), []
            elif name == "NobodyStaysWithout":
                for phase in (Phase.WAITING, Phase.SUSPENDED, Phase.RECOMPUTE_PAUSED):
                    yield self.states.phase[:, r] == phase, []

    def holds(self, specification: str, claim: str) -> bool:
        """No run that keeps the assumptions refutes the claim."""
        assumptions = self.assumptions(specification)
        return not any(fair_run(self.graph, inside, [*assumptions, *more]) for inside, more in self.refutations(claim))


def fair_run(graph: StateGraph, inside: Bools, fairness: Sequence[Fairness]) -> bool:
    """Some infinite run stays in the states ``inside`` from some time on and keeps every assumption.

    A run may also stand still, as TLA+ allows, so a single state is a loop. Emerson and Lei's way: what is
    met for ever lies in one strongly connected component; if that has nothing of what an assumption then
    wants, its condition cannot be met for ever there and is taken out; and so on until nothing changes.
    """
    source = np.repeat(np.arange(graph.states), np.diff(graph.first_edge))
    target = graph.target.astype(np.int64)
    states, edges = inside.copy(), inside[source] & inside[target]
    left = -1
    while left != (left := int(states.sum() + edges.sum())):
        component, edges = components(states, edges, source, target)
        inside_now, edges_now = states.copy(), edges.copy()
        for if_states, if_edges, then_states, then_edges in fairness:
            kept = np.zeros(graph.states, np.bool_)
            kept[component[inside_now & then_states]] = True
            kept[component[source[edges_now & then_edges]]] = True
            states &= kept[component] | ~if_states
            edges &= kept[component[source]] | ~if_edges
        edges &= states[source] & states[target]
    return bool(states.any())


def components(states: Bools, edges: Bools, source: Ints, target: Ints) -> tuple[Ints, Bools]:
    """Per state its component, as the number of one of the states, and the edges inside components."""
    first = np.zeros(len(states) + 1, np.int64)
    np.cumsum(np.bincount(source[edges], minlength=len(states)), out=first[1:])
    numbers = strong_components(first, target[edges].astype(np.int32))
    component = np.unique(numbers, return_inverse=True)[1]
    return component, edges & (component[source] == component[target])
