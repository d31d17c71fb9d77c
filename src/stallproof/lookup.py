"""The transition table as an array, for compiled code. What only watches does without: it loads no Numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from stallproof.compiled import compiled
from stallproof.lifecycle import TRANSITIONS, Event, IllegalTransition, Phase

ILLEGAL = -1
"""Entry of :data:`NEXT_PHASE` for an event the table does not allow."""


def _lookup_table() -> np.ndarray[Any, np.dtype[np.int64]]:
    table = np.full((len(Phase), len(Event)), ILLEGAL, np.int64)
    for row in TRANSITIONS:
        for source in row.sources:
            table[source, row.event] = row.target
    return table


NEXT_PHASE = _lookup_table()
"""int64[phase, event]: the phase reached, or :data:`ILLEGAL`. Guards are the caller's."""


@compiled
def next_phase(request: int, phase: int, event: int) -> int:
    """The phase that ``event`` leads to from ``phase``.

    Raises IllegalTransition, naming ``request``, if the table has no such row.
    """
    reached = NEXT_PHASE[phase, event]
    if reached == ILLEGAL:
        raise IllegalTransition(request, phase, event)
    return reached
