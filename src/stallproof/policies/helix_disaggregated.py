"""``helix-disaggregated``: the generation server of disaggregated Helix, which raises when an allocation fails.

Source: the TensorRT-LLM pull request 21455, by its text, and the V2 scheduler (2026, commit 00746ef9) for
the walk. A generation server got the pages of a prompt from another server and cannot replay it, so it
gives nobody up and suspends nobody, host tier or not. One walk in the order of arrival: a request that has
not arrived in the cache takes the pages of its whole prompt, or is passed over; a decode grows, or the
server raises.

In the model a raise is a pass that decides nothing: the server stops, and so do all live requests. That is
the property ``no-dead-end``, which this policy does not claim; its shortest trace is the shortest way to a
failed allocation. ``drive`` ends with one error that names the knobs.

Our reading: receiving a prompt is one prefill of all its tokens, whatever the chunk. Not modelled: the time
of the transfer.

Not claimed: ``no-dead-end`` and ``oldest-finishes`` (it raises by design, and a prompt that does not fit is
passed over); ``no-priority-inversion`` (there are none); what is about giving requests up.
"""

from __future__ import annotations

from stallproof.plan import Plan
from stallproof.policies.interface import NEVER_SUSPENDS, Policy, decision, whole_pass
from stallproof.requests import Requests
from stallproof.room import FITS, decodes, next_tokens, serve, waits
from stallproof.tiers import Tiers


@decision
def grow_or_raise(requests: Requests, tiers: Tiers, plan: Plan, chunk_tokens: int, lookahead: int) -> bool:
    """Receive prompts that fit whole; a decode that cannot grow ends the server."""
    for r in range(len(requests.phase)):
        if decodes(requests, r) or waits(requests, r):
            tokens = next_tokens(requests, plan, r, requests.tokens[r], lookahead)
            if tokens == 0:
                return True
            if serve(requests, tiers, plan, r, tokens) != FITS and requests.decoding[r]:
                plan.failed[0] = 1
                return True
    return True


HELIX_DISAGGREGATED = Policy(
    name="helix-disaggregated",
    summary="our reading of a generation server of disaggregated Helix: a failed allocation raises",
    rules=whole_pass(grow_or_raise),
    unclaimed=NEVER_SUSPENDS
    | {
        "no-dead-end",
        "oldest-finishes",
        "sometimes-recompute-pauses-active",
        "sometimes-prefill-preempted",
        "no-priority-inversion",
    },
    raises=(
        "Raise max_gpu_total_bytes (bytes of this rank) or max_tokens (tokens of all ranks together), "
        "or let fewer requests in at once."
    ),
)
