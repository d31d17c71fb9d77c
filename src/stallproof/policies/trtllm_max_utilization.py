"""``trtllm-max-utilization``: the C++ capacity scheduler of TensorRT-LLM, policy ``MAX_UTILIZATION``.

Source: ``cpp/tensorrt_llm/batch_manager/capacityScheduler.cpp`` (2025, commit 02a10fed) and
``getNeededBlocksOneStep`` of its block manager. One walk over all requests in the order of arrival,
prefills and decodes alike, up to an end that moves. A request that does not fit has the last started one at
or behind it paused, possibly itself; the end moves to that one, and the request is tried again. If nobody
at or behind it has started, the walk is over. A paused request is recomputed from zero. There is no tier
below the GPU.

A prompt takes the pages of all its tokens at its first chunk. Our table takes pages chunk by chunk, so we
promise the others to it instead: nobody gets them. Our reading: ``--pass-requests`` is the largest batch; a
request that does not fit into it has others paused as well, as in the source. A pass without tokens left
ends, as the micro-batch scheduler leaves the rest out. Not modelled: shared prefixes, two micro-batches,
adapters, beams.

Not claimed: ``only-when-needed`` (it pauses until the request fits or nobody is left, without asking
whether that can be), ``no-priority-inversion`` (there are none).
"""

from __future__ import annotations

from stallproof.compiled import compiled_in_place
from stallproof.limits import UNLIMITED, Limits, tokens_wanted
from stallproof.plan import REQUESTS, TOKENS, Plan
from stallproof.policies.interface import NEVER_SUSPENDS, Policy, decision, whole_pass
from stallproof.requests import ACTIVE, NOBODY, Requests, started
from stallproof.room import pause_for, serve, waits
from stallproof.tiers import GPU, Tiers, missing_pages, pages_to_hold


@decision
def one_walk(requests: Requests, tiers: Tiers, plan: Plan, chunk_tokens: int, lookahead: int) -> bool:
    """Every request in order, at the cost of the last ones that have started."""
    limits = Limits(chunk_tokens, lookahead, UNLIMITED, UNLIMITED)
    end = len(requests.phase)
    r = 0
    while r < end:
        if requests.phase[r] != ACTIVE and not waits(requests, r):
            r += 1
            continue
        tokens = tokens_wanted(requests, limits, r, plan.left[TOKENS])
        if tokens == 0 or tokens > plan.left[TOKENS]:
            return True
        if plan.left[REQUESTS] > 0 and pages_for_a_step(requests, tiers, r, tokens) <= unpromised(requests, tiers):
            serve(requests, tiers, plan, r, tokens)
            r += 1
        else:
            victim = last_started(requests, r, end)
            if victim == NOBODY:
                return True
            pause_for(requests, tiers, plan, victim, r)
            end = victim
    return True


@compiled_in_place
def pages_for_a_step(requests: Requests, tiers: Tiers, r: int, tokens: int) -> int:
    """Pages that ``r`` must find free: a prompt all of its own at its first chunk, and then none."""
    if waits(requests, r):
        return pages_to_hold(tiers, requests.tokens[r])
    if requests.decoding[r]:
        return missing_pages(requests, tiers, r, tokens)
    return 0


@compiled_in_place
def unpromised(requests: Requests, tiers: Tiers) -> int:
    """Free pages but those that prompts in the middle of their prefill have yet to take."""
    pages = tiers.free[GPU]
    for r in range(len(requests.phase)):
        if requests.phase[r] == ACTIVE and not requests.decoding[r]:
            pages -= pages_to_hold(tiers, requests.tokens[r]) - requests.gpu_pages[r]
    return pages


@compiled_in_place
def last_started(requests: Requests, first: int, end: int) -> int:
    """The last active request from ``first`` to ``end`` that has computed anything; or NOBODY."""
    for v in range(end - 1, first - 1, -1):
        if requests.phase[v] == ACTIVE and started(requests, v):
            return v
    return NOBODY


TRTLLM_MAX_UTILIZATION = Policy(
    name="trtllm-max-utilization",
    summary="our reading of TensorRT-LLM's C++ MAX_UTILIZATION: pause from the end of the list until it fits",
    rules=whole_pass(one_walk),
    unclaimed=NEVER_SUSPENDS | {"only-when-needed", "no-priority-inversion"},
)
