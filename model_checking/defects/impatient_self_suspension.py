"""R10 missing: a decode that finds no way suspends itself while pages are on their way to others.

A request whose pages are being copied is nobody's victim, so the older decode finds none. It gives up
its own pages, and the two take turns: each resumes when the other one's copy is done.
"""

from __future__ import annotations

from stallproof.policies import RESIDENT_FIRST
from stallproof.policies.interface import no

POLICY = RESIDENT_FIRST.changed(
    "impatient-self-suspension",
    "resident-first, but a decode that finds no way does not wait for copies in flight",
    waits_for_copies=no,
)
