"""How much of a policy's exhaustive graph a fuzz has seen, and the way to what it has not."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from stallproof.bounds import Bounds
from stallproof.claims import Verdict
from stallproof.explorer import explore
from stallproof.lifecycle import Phase
from stallproof.model import Kind, LifecycleModel, Move
from stallproof.observations import RequestId, Standing
from stallproof.packing import pack
from stallproof.policies import policy_named
from stallproof.traces import Trace, trace_of

ROUTES_LAST = 40
"""Sightings after which the ways to unseen edges are looked for again."""

MEASURED: list[GraphCoverage] = []
"""All that were made in this process, for the summary at the end of a run of tests."""


class GraphCoverage:
    """A scheduler that claims to be ``policy`` is fuzzed within ``bounds``: which states and edges were seen.

    ``strangers``: moves after which it was in no state that the policy can be in.
    """

    def __init__(self, policy: str, bounds: Bounds) -> None:
        self.name = policy
        self.model = LifecycleModel(policy_named(policy), bounds)
        self._graph = explore(self.model)
        self._state = {row.tobytes(): state for state, row in enumerate(self._graph.rows)}
        self._seen_states = np.zeros(self._graph.states, bool)
        self._seen_states[0] = True
        self._seen_edges = np.zeros(len(self._graph.target), bool)
        self.strangers = 0
        self.moves = 0
        self._routes_at = -ROUTES_LAST
        self._next_hop = np.zeros(0, np.int32)
        self._decided: dict[tuple[int, int], Move | None] = {}

    def see(self, state: int | None, move: Move, after: int | None) -> None:
        """One move was made. ``state``, ``after``: None if there is no such state in the graph."""
        self.moves += 1
        if after is None:
            self.strangers += 1
            return
        self._seen_states[after] = True
        if state is None:
            return
        for edge in self._edges(state):
            if self._graph.label[edge] == move.label and self._graph.target[edge] == after:
                self._seen_edges[edge] = True

    def _edges(self, state: int) -> range:
        first = self._graph.first_edge
        return range(int(first[state]), int(first[state + 1]))

    def state_of(self, requests: list[Standing], decoding: set[RequestId]) -> int | None:
        """The state in which the requests stand so, in order of arrival; None if there is none."""
        bounds = self.model.bounds
        if len(requests) > bounds.live:
            return None
        step = self.model.new_step()
        table = step.before
        for column in table:
            column[:] = 0
        for r, standing in enumerate(requests):
            known = (standing.tokens, standing.computed, standing.most_tokens, standing.gpu_pages, standing.host_pages)
            if any(value is None for value in known):
                return None
            table.phase[r], table.tokens[r], table.computed[r] = standing.phase, standing.tokens, standing.computed
            table.output_left[r] = (standing.most_tokens or 0) - (standing.tokens or 0)
            table.gpu_pages[r], table.host_pages[r] = standing.gpu_pages, standing.host_pages
            table.decoding[r] = standing.request in decoding
            table.suspension[r] = (standing.suspension or 0) + 1 if standing.phase is Phase.SUSPENDED else 0
        words = np.zeros(self.model.words, np.uint64)
        pack(table, step.tiers_before, words)
        return self._state.get(words.tobytes())

    def towards_the_unseen(self, state: int | None, choice: int, history: int) -> Move | None:
        """A move on the way to an edge not seen so far; None if there is none left, or no way.

        Decided once for each ``history`` (the moves that led here) and ``choice``: Hypothesis plays a run again, and it
        must then go the same way.
        """
        if state is None:
            return None
        if (history, choice) not in self._decided:
            self._decided[history, choice] = self._decide(state, choice)
        return self._decided[history, choice]

    def _decide(self, state: int, choice: int) -> Move | None:
        unseen = [edge for edge in self._edges(state) if not self._seen_edges[edge]]
        if unseen:
            return Move.of_label(int(self._graph.label[unseen[choice % len(unseen)]]))
        if self.moves - self._routes_at >= ROUTES_LAST:
            self._find_routes()
        hop = int(self._next_hop[state])
        edges = [edge for edge in self._edges(state) if self._graph.target[edge] == hop]
        return Move.of_label(int(self._graph.label[edges[choice % len(edges)]])) if edges else None

    def _find_routes(self) -> None:
        """Of each state the next one on a shortest way to an unseen edge: a search backwards from all of them."""
        graph, states = self._graph, self._graph.states
        source = np.repeat(np.arange(states, dtype=np.int32), np.diff(graph.first_edge))
        goals = np.unique(source[~self._seen_edges])
        everywhere = np.full(len(goals), states, np.int32)
        backwards = (np.concatenate([graph.target, everywhere]), np.concatenate([source, goals]))
        ones = np.ones(len(backwards[0]), np.int8)
        matrix = csr_array((ones, backwards), shape=(states + 1, states + 1))
        self._next_hop = breadth_first_order(matrix, states)[1]
        self._routes_at = self.moves

    def summary(self) -> str:
        """What was seen and what was not, in one paragraph."""
        graph = self._graph
        lines = [
            f"{self.name}, {self.moves:,} moves: saw {int(self._seen_states.sum()):,} of {graph.states:,} states, "
            f"{int(self._seen_edges.sum()):,} of {len(self._seen_edges):,} edges"
        ]
        kinds = np.array([Kind(int(label) & 7).name.lower() for label in graph.label])
        unseen = {str(kind): int((kinds[~self._seen_edges] == kind).sum()) for kind in np.unique(kinds)}
        left = ", ".join(f"{count:,} {kind}" for kind, count in unseen.items() if count)
        lines.append(f"unseen edges: {left}" if left else "no edge is unseen")
        if not self._seen_states.all():
            nearest = int(np.flatnonzero(~self._seen_states)[0])
            lines.append(f"nearest unseen state: {graph.depth_of(nearest)} moves from the start")
        if self.strangers:
            lines.append(f"{self.strangers:,} moves led to a state that {self.name} cannot be in")
        return "; ".join(lines)

    def shortest(self, claim: str) -> Trace | None:
        """The shortest run of the policy that makes ``claim`` false, if it has one."""
        finding = self._graph.findings.get(claim)
        if finding is None or finding.trace is None or finding.verdict is not Verdict.VIOLATED:
            return None
        moves = [Move.of_label(step.label) for step in finding.trace.steps[1:]]
        return trace_of(self.model, finding.claim, moves, finding.trace.loop_start)


@cache
def coverage_of(policy: str, bounds: Bounds) -> GraphCoverage:
    """The one of this process, explored when it is first asked for."""
    found = GraphCoverage(policy, bounds)
    MEASURED.append(found)
    return found
