"""A request is given pages for its tokens and none for its recurrent state."""

from __future__ import annotations

from stallproof.policies import RESIDENT_FIRST
from stallproof.requests import Requests
from stallproof.tiers import Tiers, pages_for


def missing_pages(requests: Requests, tiers: Tiers, r: int, tokens: int) -> int:
    """As ever, without the pages of the state."""
    lacking = pages_for(requests.computed[r] + tokens, tiers.page_tokens) - requests.gpu_pages[r]
    return max(lacking, requests.host_pages[r])


POLICY = RESIDENT_FIRST
REPLACED = {"room.missing_pages": missing_pages}
