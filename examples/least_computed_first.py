"""Least computed first: the victim is whoever loses the fewest computed tokens.

Proposed for vLLM in pull request 53723 and issue 54644 (2026): preempt the running request with the fewest computed
tokens, whatever its place in the queue. Here it chooses victims in the pass of ``resident-first``, which serves
requests in their order; vLLM's pass goes another way, and was not driven.
"""

from stallproof.policies import ACTIVE, NOBODY, SUSPENDED, is_candidate, pages_gained, victim


@victim
def proposed(requests, tiers, plan, requester, tokens):
    """Of all active requests that this pass has not served, the requester excepted, the one with the fewest tokens."""
    least = NOBODY
    for r in range(len(requests.phase)):
        if requests.phase[r] == ACTIVE and r != requester and plan.scheduled[r] == 0:
            if least == NOBODY or requests.computed[r] < requests.computed[least]:
                least = r
    return least


@victim
def mended(requests, tiers, plan, requester, tokens):
    """The same among those behind the requester whose loss makes room, active ones before suspended ones."""
    least = NOBODY
    for phase in (ACTIVE, SUSPENDED):
        for r in range(requester + 1, len(requests.phase)):
            if requests.phase[r] == phase and is_candidate(requests, plan.scheduled, requester, r):
                if pages_gained(requests, tiers, requester, r) > 0:
                    if least == NOBODY or requests.computed[r] < requests.computed[least]:
                        least = r
        if least != NOBODY:
            return least
    return NOBODY
