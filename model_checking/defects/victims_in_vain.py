"""R7 missing: requests are given up even where all of them together would not be enough."""

from __future__ import annotations

from stallproof.policies import RESIDENT_FIRST
from stallproof.policies.interface import yes

POLICY = RESIDENT_FIRST.changed(
    "victims-in-vain",
    "resident-first without R7: victims are taken although all together are too few",
    worth_giving_up=yes,
)
