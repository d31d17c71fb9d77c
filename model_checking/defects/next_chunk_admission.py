"""A prompt is admitted as soon as its next chunk fits: it fills the pool, is preempted, starts anew, again and again.

No property that holds or fails says so: the oldest finishes all the same. The exact worst case does.
Right is ``vllm-fcfs``, which admits a request only if all tokens it knows fit.
"""

from __future__ import annotations

from stallproof.plan import Plan
from stallproof.policies import VLLM_FCFS, decision
from stallproof.policies.interface import whole_pass
from stallproof.policies.vllm_fcfs import serve_running
from stallproof.requests import Requests
from stallproof.room import FITS, next_tokens, serve, waits
from stallproof.tiers import Tiers


@decision
def running_then_next_chunks(requests: Requests, tiers: Tiers, plan: Plan, chunk_tokens: int, lookahead: int) -> bool:
    """Serve the running; if nobody was preempted, admit waiting ones up to the first whose chunk does not fit."""
    if serve_running(requests, tiers, plan, chunk_tokens, lookahead):
        return True
    for r in range(len(requests.phase)):
        if waits(requests, r):
            tokens = next_tokens(requests, plan, r, chunk_tokens, lookahead)
            if tokens == 0 or serve(requests, tiers, plan, r, tokens) != FITS:
                return True
    return True


POLICY = VLLM_FCFS.changed(
    "next-chunk-admission",
    "vllm-fcfs, but a request is admitted as soon as its next chunk fits",
    **whole_pass(running_then_next_chunks)._asdict(),
)
GOOD_POLICY = VLLM_FCFS
