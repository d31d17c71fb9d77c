"""What an exploration gives back: the graph, its size, and a finding per claim."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from stallproof.claims import Claim, Verdict
from stallproof.explorer.model import SYSTEM_STEP, Bools, Int32s, Int64s, UInt64s

NO_STATE: Final = -1
"""The parent of an initial state, and the target of a transition beyond the bound."""

NO_LABEL: Final = -1
"""The label of a trace's first step, which nothing led to."""


@dataclass(frozen=True, eq=False)
class TraceStep:
    """``label`` is what happened (``NO_LABEL``: the run starts here), ``row`` the state it led to."""

    label: int
    row: UInt64s


@dataclass(frozen=True, eq=False)
class Trace:
    """A run from an initial state. With ``loop_start`` it is a lasso: the row of its last step is
    that of ``steps[loop_start]``, and the steps after ``loop_start`` repeat for ever."""

    steps: tuple[TraceStep, ...]
    loop_start: int | None = None

    @property
    def length(self) -> int:
        """Transitions taken: the first step, the initial state, is none. Of a lasso: stem and loop."""
        return len(self.steps) - 1


@dataclass(frozen=True)
class Finding:
    """What became of one claim.

    ``trace`` is a shortest counterexample of a violated claim, a shortest witness of a
    sometimes-claim that holds, else ``None``.
    """

    claim: Claim
    verdict: Verdict
    states_checked: int
    trace: Trace | None = None


class Progress(NamedTuple):
    """A search on its way. ``queue`` counts states found but not yet expanded."""

    states: int
    transitions: int
    depth: int
    queue: int
    seconds: float


@dataclass(frozen=True, eq=False)
class StateGraph:
    """The explored states and transitions. A state's id is its position in breadth-first order.

    The transitions out of state ``s`` are ``first_edge[s]`` to ``first_edge[s + 1]`` (exclusive) of
    the edge arrays, in the model's own order.
    """

    rows: UInt64s
    """``[states, words]``."""

    parent: Int32s
    """``[states]``: the state it was first reached from, or ``NO_STATE``."""

    parent_label: Int32s
    """``[states]``: the label it was first reached by, or ``NO_LABEL``."""

    level_start: Int64s
    """``[depth + 2]``: first state of each level, then the number of states."""

    first_edge: Int64s
    """``[states + 1]``."""

    target: Int32s
    """``[edges]``."""

    label: Int32s
    """``[edges]``."""

    facts: UInt64s
    """``[edges]``: as in :class:`~stallproof.explorer.model.Successors`."""

    @property
    def states(self) -> int:
        """Distinct states found."""
        return len(self.rows)

    @property
    def depth(self) -> int:
        """Number of the last level; that of the initial states is 0."""
        return len(self.level_start) - 2

    @property
    def system_steps(self) -> Bools:
        """``[edges]``: whether the system takes the step, not its environment."""
        return self.facts >> np.uint64(SYSTEM_STEP) != 0

    @property
    def depths(self) -> Int32s:
        """``[states]``: steps of a shortest run to each."""
        return np.repeat(np.arange(self.depth + 1, dtype=np.int32), np.diff(self.level_start))

    def source_of(self, edge: int) -> int:
        """The state an edge leaves."""
        return int(np.searchsorted(self.first_edge, edge, side="right")) - 1

    def depth_of(self, state: int) -> int:
        """Steps of a shortest run to a state."""
        return int(np.searchsorted(self.level_start[:-1], state, side="right")) - 1


@dataclass(frozen=True, eq=False)
class Exploration(StateGraph):
    """A finished search: the graph, its measures, and what became of each claim."""

    transitions: int
    """Generated ones, repeated ones and self-loops included, initial states not. Of a search that
    was cut off also those beyond the bound, which the edge arrays leave out."""

    complete: bool
    """False if ``max_states`` kept a state out."""

    seconds: float
    """Wall clock, search and findings."""

    fired: Int64s
    """``[k]``: the model's counters, summed over all generated transitions."""

    findings: dict[str, Finding] = field(default_factory=dict)
    """By name of the claim, in the order of the claims."""
