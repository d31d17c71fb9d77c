"""R5 missing, K6 missing: after a victim the context phase goes on, and others take the freed pages."""

from __future__ import annotations

from stallproof.policies import RESIDENT_FIRST
from stallproof.policies.interface import no

POLICY = RESIDENT_FIRST.changed(
    "freed-pages-stolen",
    "resident-first without R5: pages freed for one request go to the next in the same pass",
    keeps_freed_pages=no,
)
