"""R9 missing: a lower priority is served though a request of a higher one lacks pages.

The lower one's pages are then part of what the higher one waits for.
"""

from __future__ import annotations

from stallproof.policies import RESIDENT_FIRST
from stallproof.policies.interface import yes

POLICY = RESIDENT_FIRST.changed(
    "priority-inversion",
    "resident-first, but the next priority is served though one above it waits",
    serves_next_priority=yes,
)
