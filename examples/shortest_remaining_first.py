"""Shortest remaining first: the victim is whoever has the most left to do.

Proposed for vLLM as a tie-break among victims of one priority in pull request 36980 (2026): the most tokens to go until
the request's limit. ``output_left`` is that limit, which an engine knows; when a request will really stop nobody knows.
Since the rule reads it, requests arrive with every output length.
"""

from stallproof.policies import ACTIVE, NOBODY, SUSPENDED, is_candidate, pages_gained, victim


@victim
def proposed(requests, tiers, plan, requester, tokens):
    """Of all active requests that this pass has not served, the requester excepted, the one with the most to go."""
    longest = NOBODY
    most = 0
    for r in range(len(requests.phase)):
        if requests.phase[r] == ACTIVE and r != requester and plan.scheduled[r] == 0:
            to_go = requests.tokens[r] - requests.computed[r] + requests.output_left[r]
            if to_go > most:
                longest, most = r, to_go
    return longest


@victim
def mended(requests, tiers, plan, requester, tokens):
    """The same among those behind the requester whose loss makes room, active ones before suspended ones."""
    for phase in (ACTIVE, SUSPENDED):
        longest = NOBODY
        most = 0
        for r in range(requester + 1, len(requests.phase)):
            if requests.phase[r] == phase and is_candidate(requests, plan.scheduled, requester, r):
                if pages_gained(requests, tiers, requester, r) > 0:
                    to_go = requests.tokens[r] - requests.computed[r] + requests.output_left[r]
                    if to_go > most:
                        longest, most = r, to_go
        if longest != NOBODY:
            return longest
    return NOBODY
