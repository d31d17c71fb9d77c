"""``lightllm-pause``: LightLLM's router of 2024 to early 2025, first come, first served, with pauses.

Source: ``lightllm/server/router/manager.py``, ``pause_strategy.py`` and ``req_queue`` (commits 3bed16df,
354f5dcb, 32a214bd, 05936590). A step decodes all running requests if their next tokens fit. If not, it
pauses the newest, which is recomputed later, and does nothing else. Now and then waiting requests are
admitted, in order up to the first that does not fit, whole prompts each; what fits is an estimate of the
largest number of tokens at once. A paused one goes to the head of the queue.

Our reading, and where it is not exact:

- The estimate expects no output beyond what there is (``router_max_new_token_len`` far below the outputs):
  with outputs below it LightLLM reserves them, and never pauses.
- LightLLM's estimate must stay below the pool and counts one token more; ours may fill it, since our
  requests may need the whole pool. By its arithmetic a request that needs the pool to the last token,
  paused before its last one, could never come back.
- Admission is tried in every pass, beside the decodes: LightLLM has a prefill step after
  ``router_max_wait_tokens`` decode steps.
- A prompt is computed whole, so ``--chunk-tokens`` changes nothing. Not modelled: chunked prefill, the
  prompt cache.

Not claimed: ``only-when-needed`` (the batch as a whole lacks pages, not one request),
``no-priority-inversion``.
"""

from __future__ import annotations

from stallproof.compiled import compiled_in_place
from stallproof.plan import Plan
from stallproof.policies.interface import NEVER_SUSPENDS, Policy, decision, whole_pass
from stallproof.requests import ACTIVE, Requests
from stallproof.room import (
    newest_active,
    next_tokens,
    oldest_lacking,
    pages_to_decode,
    pause_for,
    serve,
    serve_decodes,
    waits,
)
from stallproof.tiers import GPU, Tiers, pages_to_hold


@decision
def decode_or_pause(requests: Requests, tiers: Tiers, plan: Plan, chunk_tokens: int, lookahead: int) -> bool:
    """Decode all, and admit who fits; or pause the newest, and nothing else."""
    if pages_to_decode(requests, tiers, 1 + lookahead) > tiers.free[GPU]:
        victim = newest_active(requests)
        pause_for(requests, tiers, plan, victim, oldest_lacking(requests, tiers, 1 + lookahead, victim))
        return True
    if not serve_decodes(requests, tiers, plan, chunk_tokens, lookahead):
        return True
    for r in range(len(requests.phase)):
        if waits(requests, r):
            tokens = next_tokens(requests, plan, r, requests.tokens[r], lookahead)
            if tokens < requests.tokens[r] or estimate(requests, tiers, r, lookahead) > tiers.capacity[GPU]:
                return True
            serve(requests, tiers, plan, r, tokens)
    return True


@compiled_in_place
def estimate(requests: Requests, tiers: Tiers, newcomer: int, lookahead: int) -> int:
    """Pages in use once all tokens that running requests and the newcomer know are computed."""
    pages = pages_to_hold(tiers, requests.tokens[newcomer])
    for r in range(len(requests.phase)):
        if requests.phase[r] == ACTIVE:
            pages += pages_to_hold(tiers, requests.tokens[r] + lookahead)
    return pages


LIGHTLLM_PAUSE = Policy(
    name="lightllm-pause",
    summary="our reading of LightLLM: if not all decodes fit, pause the newest",
    rules=whole_pass(decode_or_pause),
    unclaimed=NEVER_SUSPENDS | {"sometimes-prefill-preempted", "only-when-needed", "no-priority-inversion"},
)
