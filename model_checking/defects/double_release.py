"""A request finishes in two halves: its pages are released at once, and it leaves the running list after the pass.

Between the two it is a victim, and its pages are released again: two requests get the same page. Right is
:data:`GOOD`: pages, phase and list change together.
"""

from __future__ import annotations

from model_checking.defects.finalising_victim import compute_only, finalising, wants_to_decode
from stallproof.limits import Limits
from stallproof.plan import SELF, Plan, perform
from stallproof.plan import clear as clear_plan
from stallproof.policies import RESIDENT_FIRST
from stallproof.requests import ACTIVE, FINISHED, NOBODY, Requests
from stallproof.tiers import FINISH, GPU, Tiers

POLICY = RESIDENT_FIRST
