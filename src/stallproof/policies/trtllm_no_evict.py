"""``trtllm-no-evict``: the C++ capacity scheduler of TensorRT-LLM, policy ``GUARANTEED_NO_EVICT``.

Source: ``cpp/tensorrt_llm/batch_manager/capacityScheduler.cpp`` (2025, commit 02a10fed). Whoever runs keeps
the pages it needs to its end, by its limit on output, reserved. A request is admitted, in the order of
arrival up to the first that does not fit, only if the pages to its own end are free beside all
reservations. So nobody is ever given up.

The rule reads ``output_left``: a request that stops early gives its reservation back then. Our reading: one
step of all decodes, then chunks of prompts. Not modelled: shared prefixes, adapters, beams,
``STATIC_BATCH``.

Not claimed: ``no-priority-inversion`` (there are none), and what is about giving requests up: it never
does.
"""

from __future__ import annotations

from stallproof.compiled import compiled_in_place
from stallproof.plan import Plan
from stallproof.policies.interface import NEVER_SUSPENDS, Policy, decision, whole_pass
from stallproof.requests import ACTIVE, Requests
from stallproof.room import next_tokens, serve, serve_decodes, waits
from stallproof.tiers import GPU, Tiers, peak_to_hold


@decision
def reserve_to_the_end(requests: Requests, tiers: Tiers, plan: Plan, chunk_tokens: int, lookahead: int) -> bool:
    """All decodes; then prefills in order, each admitted only if it can run to its end."""
    if not serve_decodes(requests, tiers, plan, chunk_tokens, lookahead):
        return True
    for r in range(len(requests.phase)):
        if waits(requests, r):
            if peak(requests, tiers, r, lookahead) > unreserved(requests, tiers, lookahead):
                return True
        elif requests.phase[r] != ACTIVE or requests.decoding[r]:
            continue
        tokens = next_tokens(requests, plan, r, chunk_tokens, lookahead)
        if tokens == 0:
            return True
        serve(requests, tiers, plan, r, tokens)
    return True


@compiled_in_place
def peak(requests: Requests, tiers: Tiers, r: int, lookahead: int) -> int:
    """The most pages that ``r`` will have."""
    return peak_to_hold(tiers, requests.tokens[r], requests.output_left[r], lookahead)


@compiled_in_place
def unreserved(requests: Requests, tiers: Tiers, lookahead: int) -> int:
    """Free pages but those that running requests have yet to take until their ends."""
    pages = tiers.free[GPU]
    for r in range(len(requests.phase)):
        if requests.phase[r] == ACTIVE:
            pages -= peak(requests, tiers, r, lookahead) - requests.gpu_pages[r]
    return pages


TRTLLM_NO_EVICT = Policy(
    name="trtllm-no-evict",
    summary="our reading of TensorRT-LLM's C++ GUARANTEED_NO_EVICT: admit only who can run to its end",
    rules=whole_pass(reserve_to_the_end),
    unclaimed=NEVER_SUSPENDS
    | {"sometimes-recompute-pauses-active", "sometimes-prefill-preempted", "no-priority-inversion"},
    reads_output_left=True,
)
