"""Two ranks that must make the same plans: each has its own pages and runs its own pass over the same requests.

A state is the state of both. Arrivals, stops and cancellations reach both ranks; copies are done on both at once, or,
if the ranks do not agree on completions, on each when they are. After a disagreement the ranks hang, so the search
goes on from nothing. Works interpreted only where a rank has functions of its own.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from model_checking.variants import Replaced, in_place
from stallproof.bounds import Bounds
from stallproof.claims import Claim, Kind
from stallproof.explorer import SYSTEM_STEP, Successors
from stallproof.model import Kind as MoveKind
from stallproof.model import LifecycleModel, Move
from stallproof.packing import Words, pack, unpack
from stallproof.policies import Policy
from stallproof.witness import Step


class Rank(NamedTuple):
    """What one rank has of its own: the sizes of its tiers, and functions that differ from the others'."""

    bounds: Bounds
    replaced: Replaced = MappingProxyType({})


def agree(one: Step, other: Step) -> bool:
    """Every rank schedules the same tokens and leaves each request in the same phase."""
    return one.plan.scheduled.tolist() == other.plan.scheduled.tolist() and (
        one.after.phase.tolist() == other.after.phase.tolist()
    )


RANKS_AGREE = Claim("ranks-agree", Kind.ALWAYS, str(agree.__doc__), agree)

OF_ONE_RANK = 1 << 28
"""In a label, above any move: it happens on the first rank alone; twice that: on the second alone."""

SETTLES = (MoveKind.SETTLE, MoveKind.SETTLE_ABANDONED)


class Ranks:
    """Two ranks under one policy, as the explorer wants them. See :class:`stallproof.explorer.Model`.

    ``agree_on_completions``: a copy counts as done when it is done on both.
    """

    claims = (RANKS_AGREE,)
    applicable = (True,)
    fairness = (SYSTEM_STEP,)

    def __init__(self, policy: Policy, ranks: tuple[Rank, Rank], agree_on_completions: bool = True) -> None:
        self.ranks = ranks
        self.models = tuple(LifecycleModel(policy, rank.bounds) for rank in ranks)
        self.steps = tuple(model.new_step() for model in self.models)
        self.agree_on_completions = agree_on_completions
        self.words = 2 * self.models[0].words

    def initial_rows(self) -> Words:
        """No request on either."""
        return np.zeros((1, self.words), np.uint64)

    def successors(self, rows: Words) -> Successors:
        """All transitions out of ``rows``."""
        found = [(i, *made) for i, row in enumerate(rows) for made in self._moves(row)]
        return Successors(
            source=np.array([each[0] for each in found], np.int32),
            label=np.array([each[1] for each in found], np.int32),
            row=np.array([each[2] for each in found], np.uint64),
            facts=np.array([each[3] for each in found], np.uint64),
            fired=np.zeros(1, np.int64),
        )

    def _moves(self, row: Words) -> list[tuple[int, Words, int]]:
        halves = np.split(row, 2)
        possible = [
            dict.fromkeys(model.successors(half[None, :]).label.tolist())
            for model, half in zip(self.models, halves, strict=True)
        ]
        made = []
        for label in possible[0]:
            if label in possible[1] and (self.agree_on_completions or Move.of_label(label).kind not in SETTLES):
                made.append(self._make(label, halves, (True, True)))
        if not self.agree_on_completions:
            for rank in range(2):
                for label in possible[rank]:
                    if Move.of_label(label).kind in SETTLES:
                        code, *rest = self._make(label, halves, (rank == 0, rank == 1))
                        made.append((code | OF_ONE_RANK << rank, *rest))
        return made

    def _make(self, label: int, halves: list[Words], on: tuple[bool, bool]) -> tuple[int, Words, int]:
        move = Move.of_label(label)
        reached = [half.copy() for half in halves]
        for k in range(2):
            if on[k]:
                step = self.steps[k]
                unpack(halves[k], step.before, step.tiers_before)
                with in_place(self.ranks[k].replaced):
                    self.models[k].run(step, move)
                pack(step.after, step.tiers, reached[k])
        if move.kind is not MoveKind.PASS:
            return label, np.concatenate(reached), 0
        if agree(*self.steps):
            return label, np.concatenate(reached), 1 << SYSTEM_STEP
        return label, np.zeros_like(np.concatenate(reached)), 1 << SYSTEM_STEP | 1


def moves_of(label: int) -> tuple[Move | None, Move | None]:
    """What each rank does."""
    move = Move.of_label(label % OF_ONE_RANK)
    return (None if label & OF_ONE_RANK << 1 else move, None if label & OF_ONE_RANK else move)
