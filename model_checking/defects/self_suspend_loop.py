"""R2 and R8 missing: a decode resumes, cannot grow and suspends itself, and is then spared as given up already.

The older prefill that lacks its pages waits, and the next pass does the same. Either rule ends the loop: with R8
the decode does not resume, so this pass has not given it up; with R2 it is a victim all the same.
"""

from __future__ import annotations

from model_checking.defects import no_promotion
from stallproof.policies.interface import yes

POLICY = no_promotion.POLICY.changed(
    "self-suspend-loop",
    "resident-first without R2 and R8: who resumes in vain suspends itself, and is spared for it",
    worth_resuming=yes,
)
