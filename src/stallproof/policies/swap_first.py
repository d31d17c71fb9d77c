"""``swap-first``: the V0 scheduler of vLLM with ``preemption_mode=swap``, without chunked prefill.

Source: ``vllm/core/scheduler.py`` (2024, commit 0054e1fa). If nobody is swapped out, waiting requests are
admitted, whole prompts in order up to the first that does not fit, and if there was any the pass is over.
Else the running ones decode in the order of arrival; one that does not fit has the last of the running
swapped out, all its pages at once, and last of all itself. If nobody was swapped out in this pass, swapped
ones come back in order. If the host has no room for the pages of a victim the engine raises.

In the model a raise is a pass that decides nothing, as for ``helix-disaggregated``.

Our reading. A decode fits if its pages do: V0 asks for a free page a decode even where it needs none, which
is the same with a token a page. ``--chunk-tokens`` changes nothing. Swaps are done before the step, so
``--copies`` says nothing about it. Not modelled: recompute (V0's default for a single sequence), sequence
groups, the watermark, delays.

Not claimed: ``no-dead-end``, ``oldest-finishes`` and ``host-full-has-a-way-out`` (it raises by design;
prefill first also starves decodes); ``no-priority-inversion``; recompute-pauses.
"""

from __future__ import annotations

from stallproof.compiled import compiled_in_place
from stallproof.plan import SELF, Plan, perform
from stallproof.policies.interface import Policy, decision, whole_pass
from stallproof.requests import SUSPENDED, Requests
from stallproof.room import (
    COPIES_MAKE_ROOM,
    FITS,
    LACKS_PAGES,
    come_back,
    decodes,
    newest_active,
    next_tokens,
    serve,
    waits,
)
from stallproof.tiers import GPU, HOST, MIGRATE, SUSPEND, Tiers, missing_pages


@decision
def prefill_decode_swap(requests: Requests, tiers: Tiers, plan: Plan, chunk_tokens: int, lookahead: int) -> bool:
    """Prefills alone; else decodes, and whoever can be swapped in if nobody was swapped out."""
    if not anybody_swapped(requests) and prefill(requests, tiers, plan, lookahead):
        return True
    if not decode(requests, tiers, plan, lookahead):
        swap_in(requests, tiers, plan, lookahead)
    return True


@compiled_in_place
def anybody_swapped(requests: Requests) -> bool:
    """Somebody is swapped out."""
    for r in range(len(requests.phase)):
        if requests.phase[r] == SUSPENDED:
            return True
    return False


@compiled_in_place
def prefill(requests: Requests, tiers: Tiers, plan: Plan, lookahead: int) -> bool:
    """Whole prompts, up to the first that does not fit. Returns whether there was any."""
    any_prefill = False
    for r in range(len(requests.phase)):
        if waits(requests, r):
            tokens = next_tokens(requests, plan, r, requests.tokens[r], lookahead)
            if tokens < requests.tokens[r] or serve(requests, tiers, plan, r, tokens) != FITS:
                return any_prefill
            any_prefill = True
    return any_prefill


@compiled_in_place
def decode(requests: Requests, tiers: Tiers, plan: Plan, lookahead: int) -> bool:
    """Every running request, at the cost of the last ones. Returns whether the pass is over with that."""
    swapped = False
    for r in range(len(requests.phase)):
        if not decodes(requests, r) or requests.copying[r] > 0:
            continue
        tokens = next_tokens(requests, plan, r, 1, lookahead)
        if tokens == 0:
            return swapped
        outcome = serve(requests, tiers, plan, r, tokens)
        while outcome == LACKS_PAGES:
            victim = newest_active(requests)
            if requests.gpu_pages[victim] > tiers.free[HOST]:
                plan.failed[0] = 1
                return True
            swap_out(requests, tiers, plan, victim, SELF if victim == r else r)
            swapped = True
            if victim == r:
                return True
            outcome = serve(requests, tiers, plan, r, tokens)
        if outcome == COPIES_MAKE_ROOM:
            return True
    return swapped


@compiled_in_place
def swap_out(requests: Requests, tiers: Tiers, plan: Plan, victim: int, requester: int) -> None:
    """Suspend ``victim`` and move all its pages to the host at once."""
    perform(requests, tiers, plan, SUSPEND, victim, 0, requester)
    perform(requests, tiers, plan, MIGRATE, victim, requests.gpu_pages[victim], requester)


@compiled_in_place
def swap_in(requests: Requests, tiers: Tiers, plan: Plan, lookahead: int) -> None:
    """Swapped requests in order, up to the first whose pages and next token do not fit."""
    for r in range(len(requests.phase)):
        if requests.phase[r] == SUSPENDED and requests.copying[r] == 0:
            tokens = next_tokens(requests, plan, r, 1, lookahead)
            if tokens == 0 or missing_pages(requests, tiers, r, tokens) > tiers.free[GPU]:
                return
            come_back(requests, tiers, plan, r)
            serve(requests, tiers, plan, r, tokens)


SWAP_FIRST = Policy(
    name="swap-first",
    summary="our reading of vLLM V0 with swapping: the last of the running moves to the host, or it raises",
    rules=whole_pass(prefill_decode_swap),
    unclaimed=frozenset(
        {
            "no-dead-end",
            "oldest-finishes",
            "host-full-has-a-way-out",
            "no-priority-inversion",
            "sometimes-recompute-pauses-active",
            "sometimes-recompute-pauses-suspended",
            "sometimes-prefill-preempted",
        }
    ),
    raises="Increase the swap space, which is the host tier here, or let fewer requests in at once.",
)
