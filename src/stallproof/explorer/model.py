"""What the explorer asks of a model: packed rows in, packed successors out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stallproof.claims import Claim

Int32s: TypeAlias = NDArray[np.int32]
Int64s: TypeAlias = NDArray[np.int64]
UInt64s: TypeAlias = NDArray[np.uint64]
Bools: TypeAlias = NDArray[np.bool_]

SYSTEM_STEP: Final = 63
"""The bit of :attr:`Successors.facts` that marks a step of the system, not of its environment."""

MAX_CLAIMS: Final = 44
"""Claims own the bits 0 to 43 of the facts."""

FIRST_MARK: Final = 44
"""From here to the bit before :data:`SYSTEM_STEP`, bits are the model's marks of fairness."""


class Successors(NamedTuple):
    """All transitions out of a chunk of ``n`` rows, grouped by source in order.

    A bit of ``facts`` means, by the kind of the claim it belongs to: always, the claim is false
    on this transition; sometimes, it happened; eventually, the transition leaves it unfulfilled.
    """

    source: Int32s
    """``[m]``: index into the chunk, non-decreasing."""

    label: Int32s
    """``[m]``: the model's own code for what happened, not negative."""

    row: UInt64s
    """``[m, words]``: the state reached."""

    facts: UInt64s
    """``[m]``: bit ``i`` is about ``claims[i]``; bit ``SYSTEM_STEP`` says whose step it is; between them, marks."""

    fired: Int64s
    """``[k]``: the model's own counters for this chunk; the explorer adds them up."""


class Model(Protocol):
    """A finite transition system over rows of ``words`` 64-bit words. Two equal rows are one state.

    Runs are infinite as far as an eventually-claim is concerned: only a cycle refutes one. A model
    whose state may stay as it is for ever, a dead end included, must say so with a self-loop.
    """

    @property
    def words(self) -> int:
        """Words per row, at least 1."""

    @property
    def claims(self) -> Sequence[Claim]:
        """At most 44, their names all different; the position of a claim is its bit."""

    @property
    def applicable(self) -> Sequence[bool]:
        """One per claim; a claim that is not applicable is not judged."""

    @property
    def fairness(self) -> Sequence[int]:
        """Bits of the facts: a cycle refutes an eventually-claim only if each of them occurs on it.

        ``SYSTEM_STEP`` is one. A mark says "this obligation is not outstanding, or is met by this step": a
        cycle without it would put the obligation off for ever.
        """

    def initial_rows(self) -> UInt64s:
        """``[n, words]``, at least one row; repeated ones count once."""

    def successors(self, rows: UInt64s) -> Successors:
        """The transitions out of ``rows`` (``[n, words]``, not to be written to).

        Deterministic: the same for a row whichever rows stand beside it. Called from several
        threads at once, which helps as far as it releases the interpreter lock.
        """
