"""R4 missing: the context phase steps over a blocked request and serves those behind it."""

from __future__ import annotations

from stallproof.policies import RESIDENT_FIRST
from stallproof.policies.interface import no

POLICY = RESIDENT_FIRST.changed(
    "bypass",
    "resident-first without R4: newer requests pass a blocked one",
    lets_nobody_pass=no,
)
