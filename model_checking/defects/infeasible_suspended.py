"""A swapped-out request whose pages will exceed the GPU's is told "later" for ever, and keeps its host pages."""

from __future__ import annotations

from model_checking.defects import infeasible_accepted
from stallproof.policies import SWAP_FIRST

POLICY = SWAP_FIRST
REPLACED = infeasible_accepted.REPLACED
GOOD_POLICY = SWAP_FIRST
