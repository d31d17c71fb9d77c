"""``sglang-retract``: SGLang's default scheduler, first come, first served, with retraction of decodes.

Source: ``scheduler.py``, ``schedule_policy.py`` and ``schedule_batch.py`` of SGLang (2025 and 2026,
commits fd3907ee and 00550cd1). A pass is a prefill or a decode, prefill first. A prefill goes on with the one prompt
that was cut, then admits waiting ones in order, within ``chunked_prefill_size`` tokens of all together, up
to the first whose prompt and whole output do not fit what is free. A decode is of all running requests; if
their next tokens do not fit, those that generated least are retracted (of equals the one with the longest
prompt), all but one if need be, and recomputed later.

The rules read ``output_left``. Our reading, and where it is not exact:

- Running requests count with a share of their output, ``new_token_ratio``, that falls with time and jumps
  after a retraction. The table has no such memory: here they count with nothing but the pages they have.
- A retracted request goes to the end of the queue; here it keeps its place by arrival.
- The table does not tell prompt from output. Most output left stands for least generated, most tokens for
  the longest prompt: exact where all requests ask for the same output.
- ``--chunk-tokens`` is the chunked prefill size, of all prompts of a pass together.
- Not modelled: the prefix cache and its orders, mixed chunks, the flag that a batch is full, abortion of a
  last request.

Not claimed: ``victim-behind-requester`` (the victim goes by progress, not by age), ``only-when-needed``
(the batch as a whole lacks pages, not one request), ``no-priority-inversion``.
"""

from __future__ import annotations

from stallproof.compiled import compiled_in_place
from stallproof.plan import REQUESTS, TOKENS, Plan
from stallproof.policies.interface import NEVER_SUSPENDS, Policy, decision, whole_pass
from stallproof.requests import ACTIVE, NOBODY, Requests
from stallproof.room import decodes, oldest_lacking, pages_to_decode, pause_for, serve, serve_decodes, waits
from stallproof.tiers import GPU, Tiers, peak_to_hold


@decision
def prefill_or_decode(requests: Requests, tiers: Tiers, plan: Plan, chunk_tokens: int, lookahead: int) -> bool:
    """A prefill if there is one; else a decode, after retractions if it does not fit."""
    if prefill(requests, tiers, plan, chunk_tokens, lookahead):
        return True
    retract(requests, tiers, plan, 1 + lookahead)
    serve_decodes(requests, tiers, plan, chunk_tokens, lookahead)
    return True


@compiled_in_place
def prefill(requests: Requests, tiers: Tiers, plan: Plan, chunk_tokens: int, lookahead: int) -> bool:
    """The prompt that was cut, then waiting ones that fit to their ends. Returns whether there was any."""
    budget = min(chunk_tokens, plan.left[TOKENS])
    promised = 0
    any_prefill = False
    for waiting in range(2):
        for r in range(len(requests.phase)):
            if plan.scheduled[r] > 0 or (not waits(requests, r) if waiting else not was_cut(requests, r)):
                continue
            if budget == 0 or plan.left[REQUESTS] == 0:
                return any_prefill
            peak = peak_to_hold(tiers, requests.tokens[r], requests.output_left[r], lookahead)
            if waiting and peak > tiers.free[GPU] - promised:
                return any_prefill
            tokens = min(budget, requests.tokens[r] - requests.computed[r])
            serve(requests, tiers, plan, r, tokens)
            any_prefill = True
            budget -= tokens
            promised += peak - requests.gpu_pages[r]
    return any_prefill


@compiled_in_place
def was_cut(requests: Requests, r: int) -> bool:
    """Is in the middle of its prefill."""
    return requests.phase[r] == ACTIVE and requests.decoding[r] == 0


@compiled_in_place
def retract(requests: Requests, tiers: Tiers, plan: Plan, tokens: int) -> None:
    """Recompute-pause decodes, least progress first, until the rest of the batch fits or is one."""
    running = 0
    for r in range(len(requests.phase)):
        running += int(decodes(requests, r))
    while running > 1 and pages_to_decode(requests, tiers, tokens) > tiers.free[GPU]:
        victim = least_progress(requests)
        pause_for(requests, tiers, plan, victim, oldest_lacking(requests, tiers, tokens, victim))
        running -= 1


@compiled_in_place
def least_progress(requests: Requests) -> int:
    """The decode with most output left; of equals the one with most tokens, of those the newest. Or NOBODY."""
    least = NOBODY
    for r in range(len(requests.phase)):
        if decodes(requests, r) and (least == NOBODY or not more_progress(requests, r, least)):
            least = r
    return least


@compiled_in_place
def more_progress(requests: Requests, r: int, other: int) -> bool:
    """``r`` has less output left than ``other``, or as much and fewer tokens."""
    if requests.output_left[r] == requests.output_left[other]:
        return requests.tokens[r] < requests.tokens[other]
    return requests.output_left[r] < requests.output_left[other]


SGLANG_RETRACT = Policy(
    name="sglang-retract",
    summary="our reading of SGLang: prefill first, and retract the decodes that generated least",
    rules=whole_pass(prefill_or_decode),
    unclaimed=NEVER_SUSPENDS
    | {"sometimes-prefill-preempted", "victim-behind-requester", "only-when-needed", "no-priority-inversion"},
    reads_output_left=True,
)
