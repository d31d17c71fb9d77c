"""What a claim is and what became of it. Knows no request and no scheduler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from stallproof.errors import UsageError


class Kind(Enum):
    """How a claim quantifies over the runs of a system.

    ========== ==================================================================================
    always     no transition makes the sentence false
    sometimes  at least one transition makes the sentence true; guards against a vacuous model
    eventually no cycle keeps the sentence unfulfilled for ever, where the cycle contains at least
               one step of the system itself (the environment alone may dawdle)
    ========== ==================================================================================
    """

    ALWAYS = "always"
    SOMETIMES = "sometimes"
    EVENTUALLY = "eventually"


class Verdict(Enum):
    """What a search found. A search that was cut off never says ``holds``."""

    HOLDS = "holds"
    VIOLATED = "violated"
    BOUND_REACHED = "bound reached"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True)
class Claim:
    """One sentence that can be false, with its predicate.

    The predicate's arguments belong to the model that uses the claim. Its result, for one
    transition, means by kind: always, the sentence is true; sometimes, it happened; eventually,
    the transition leaves the sentence unfulfilled.
    """

    name: str
    kind: Kind
    sentence: str
    predicate: Callable[..., Any]


SAMPLE_EVERY = 16
"""With ``checks="sample"``, every how many passes the properties and contents are checked."""


class Checks(Enum):
    """How much is checked while something runs: nothing, every 16th pass, or every pass."""

    OFF = "off"
    SAMPLE = "sample"
    FULL = "full"

    @classmethod
    def named(cls, name: Checks | str) -> Checks:
        """Raises UsageError for a name that is none of them."""
        if name not in (*cls, *(known.value for known in cls)):
            raise UsageError(f"there are no checks '{name}'", "--checks", "Choose off, sample or full.")
        return cls(name)
