"""A pass is deterministic: from one state it always decides the same. A rule of somebody's file may break that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from stallproof.compiled import is_ours
from stallproof.errors import PolicyFileError
from stallproof.explorer import NO_STATE, Exploration
from stallproof.model import LifecycleModel
from stallproof.policies.interface import Rules, function_of
from stallproof.policies.vetting import place_of

STATES = 500
"""States from which all transitions are computed once more, spread evenly over those found."""


def own_rules(rules: Rules) -> list[Callable[..., Any]]:
    """The functions of those rules that do not stand in this package, each once."""
    functions = (function_of(rule) for rule in rules)
    return list(dict.fromkeys(function for function in functions if not is_ours(function)))


def require_same_answers(model: LifecycleModel, exploration: Exploration) -> None:
    """Compute transitions out of some states anew, each state by itself, and compare.

    Raises PolicyFileError if any leads elsewhere, or makes something else true: then no verdict means anything.
    """
    if any(_differ(model, exploration, state) for state in _sample(exploration)):
        rules = own_rules(model.policy.rules)
        raise PolicyFileError(
            "asked twice in the same state it did not answer the same",
            "; or ".join(place_of(rule) for rule in rules),
            "Answer from the arguments alone: no chance, no clock, nothing kept between calls.",
        )


def _sample(exploration: Exploration) -> Iterator[int]:
    expanded = int(exploration.level_start[-2]) if not exploration.complete else exploration.states
    yield from np.unique(np.linspace(0, max(expanded - 1, 0), min(STATES, expanded), dtype=np.int64)).tolist()


def _differ(model: LifecycleModel, exploration: Exploration, state: int) -> bool:
    again = model.successors(exploration.rows[state : state + 1])
    edges = slice(int(exploration.first_edge[state]), int(exploration.first_edge[state + 1]))
    target = exploration.target[edges]
    if (target == NO_STATE).any() or len(target) != len(again.row):
        return False  # cut off here
    return bool(
        (exploration.label[edges] != again.label).any()
        or (exploration.facts[edges] != again.facts).any()
        or (exploration.rows[target] != again.row).any()
    )
