"""Pages are reserved to a request's end without those of its drafts, which it then asks for and cannot get.

Nobody is preempted, so two requests whose loads or prompts were let in hold all pages and wait for each other's.
"""

from __future__ import annotations

from stallproof.plan import Plan
from stallproof.policies import TRTLLM_NO_EVICT, decision
from stallproof.policies.interface import whole_pass
from stallproof.policies.trtllm_no_evict import peak, unreserved
from stallproof.requests import ACTIVE, Requests
from stallproof.room import next_tokens, serve, serve_decodes, waits
from stallproof.tiers import Tiers


@decision
def reserve_without_drafts(requests: Requests, tiers: Tiers, plan: Plan, chunk_tokens: int, lookahead: int) -> bool:
    """All decodes; then prefills in order, each admitted only if it could run to its end without drafts."""
    if not serve_decodes(requests, tiers, plan, chunk_tokens, lookahead):
        return True
    for r in range(len(requests.phase)):
        if waits(requests, r):
            if peak(requests, tiers, r, 0) > unreserved(requests, tiers, 0):
                return True
        elif requests.phase[r] != ACTIVE or requests.decoding[r]:
            continue
        tokens = next_tokens(requests, plan, r, chunk_tokens, lookahead)
        if tokens == 0:
            return True
        serve(requests, tiers, plan, r, tokens)
    return True


POLICY = TRTLLM_NO_EVICT.changed(
    "reservation-without-lookahead",
    "trtllm-no-evict, but the pages of drafts are not reserved",
    **whole_pass(reserve_without_drafts)._asdict(),
)
GOOD_POLICY = TRTLLM_NO_EVICT
