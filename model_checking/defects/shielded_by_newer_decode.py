"""R3 missing, K1 restored: as long as an active decode holds GPU pages, a prefill gives nobody up."""

from __future__ import annotations

from stallproof.candidates import newest_helpful_candidate
from stallproof.plan import Plan
from stallproof.policies import RESIDENT_FIRST, victim
from stallproof.requests import ACTIVE, NOBODY, Requests
from stallproof.tiers import Tiers


@victim
def newest_helpful_unless_a_decode_runs(
    requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int
) -> int:
    """K1: nobody while a decode holds GPU pages; else R1, R2."""
    for r in range(len(requests.phase)):
        if requests.phase[r] == ACTIVE and requests.decoding[r] and requests.gpu_pages[r] > 0:
            return NOBODY
    return newest_helpful_candidate(requests, tiers, plan.scheduled, requester)


POLICY = RESIDENT_FIRST.changed(
    "shielded-by-newer-decode",
    "resident-first without R3: a running decode shields everybody from a prefill",
    victim_to_pause_for_prefill=newest_helpful_unless_a_decode_runs,
)
