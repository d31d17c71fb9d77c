"""R8 missing: a suspended request takes its pages back although it cannot run with them.

It breaks no property in any bound tried: it costs copies, not progress. So it is no defect but a
variant, and ``tests/test_defects.py`` says what it costs.
"""

from __future__ import annotations

from stallproof.policies import RESIDENT_FIRST
from stallproof.policies.interface import yes

POLICY = RESIDENT_FIRST.changed(
    "eager-resume",
    "resident-first without R8: a request resumes although its next token does not fit",
    worth_resuming=yes,
)
