"""``vllm-fcfs``: the scheduler of vLLM 0.32.0 (V1 engine), policy ``fcfs``, synchronous, no prefix cache.

Source: ``vllm/v1/core/sched/scheduler.py`` and ``kv_cache_manager.py`` of that release. A pass walks the
running requests in the order of their admission, decodes and prefills alike. If one lacks pages, the last
of the running is preempted by recompute, again and again; that may be the request itself, and then the walk
is over. Only if nobody was preempted are waiting requests admitted, from the head of the queue, up to the
first that does not fit; one is admitted only if the pages of all tokens it knows are free
(``scheduler_reserve_full_isl``), though it takes only those of its first chunk. A preempted request goes
back to the head of the queue, so running and waiting together always stand in the order of arrival.

Our reading: a chunk is ``long_prefill_token_threshold`` (vLLM lifts it for a request that is alone), the
budget of a pass ``--pass-tokens``, the limit on running requests ``--pass-requests``; the watermark is 0,
its default. Not modelled: asynchronous scheduling, connectors, shared prefixes, drafts of fewer tokens than
the lookahead. With several priorities the table has no order of arrival across them: see ``vllm-priority``.

Not claimed: ``only-when-needed`` (it preempts until the request fits, or is preempted itself, without
asking whether it can), ``no-priority-inversion`` (first come, first served),
``sometimes-prefill-preempted`` (rare, since a prompt is admitted only if all of it fits).
"""

from __future__ import annotations

from stallproof.compiled import compiled_in_place
from stallproof.plan import Plan
from stallproof.policies.interface import NEVER_SUSPENDS, Policy, decision, whole_pass
from stallproof.requests import ACTIVE, Requests
from stallproof.room import FITS, newest_active, next_tokens, pause_for, serve, waits
from stallproof.tiers import GPU, Tiers, pages_to_hold


@decision
def running_then_waiting(requests: Requests, tiers: Tiers, plan: Plan, chunk_tokens: int, lookahead: int) -> bool:
    """Serve the running; admit waiting ones only if nobody was preempted."""
    if not serve_running(requests, tiers, plan, chunk_tokens, lookahead):
        admit_waiting(requests, tiers, plan, chunk_tokens, lookahead)
    return True


@compiled_in_place
def serve_running(requests: Requests, tiers: Tiers, plan: Plan, chunk_tokens: int, lookahead: int) -> bool:
    """Every running request in order, at the cost of the last ones. Returns whether anybody was preempted."""
    preempted = False
    for r in range(len(requests.phase)):
        if requests.phase[r] != ACTIVE:
            continue
        tokens = next_tokens(requests, plan, r, chunk_tokens, lookahead)
        if tokens == 0:
            return preempted
        while serve(requests, tiers, plan, r, tokens) != FITS:
            victim = newest_active(requests)
            pause_for(requests, tiers, plan, victim, r)
            preempted = True
            if victim == r:
                return True
    return preempted


@compiled_in_place
def admit_waiting(requests: Requests, tiers: Tiers, plan: Plan, chunk_tokens: int, lookahead: int) -> None:
    """Waiting requests from the head of the queue, up to the first whose known tokens do not fit."""
    for r in range(len(requests.phase)):
        if not waits(requests, r):
            continue
        tokens = next_tokens(requests, plan, r, chunk_tokens, lookahead)
        if tokens == 0 or pages_to_hold(tiers, requests.tokens[r]) > tiers.free[GPU]:
            return
        serve(requests, tiers, plan, r, tokens)


VLLM_FCFS = Policy(
    name="vllm-fcfs",
    summary="our reading of vLLM 0.32: preempt the last of the running by recompute, first come, first served",
    rules=whole_pass(running_then_waiting),
    unclaimed=NEVER_SUSPENDS | {"only-when-needed", "no-priority-inversion", "sometimes-prefill-preempted"},
)
