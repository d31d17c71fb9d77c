"""No feasibility check at arrival: a request comes in although its pages will exceed the GPU's."""

from __future__ import annotations

from stallproof.bounds import Bounds
from stallproof.policies import RESIDENT_FIRST


def longest_output(prompt: int, bounds: Bounds) -> int:
    """The longest output within the bounds, whether it fits or not."""
    return bounds.max_output


def peak_pages(tokens: int, output_left: int, page_tokens: int, lookahead: int, state_pages: int) -> int:
    """What the check at arrival is told: anything fits."""
    return 0


POLICY = RESIDENT_FIRST
REPLACED = {"model.longest_output": longest_output, "certifier.peak_pages": peak_pages}
