"""Cost by exclusive pages: the victim that frees the most pages for the fewest tokens to compute again.

Proposed for vLLM in pull request 56897 (2026): the highest score of pages that only this request has, divided by its
tokens, times the share of its output that is still to come. Our reading is limited. The model shares no pages, so
all pages of a request are exclusive. The table does not hold how much a request has generated, so the last factor
is taken as the tokens still to come, which orders requests alike if all have the same limit. Fractions are compared by
multiplying out.
"""

from stallproof.policies import ACTIVE, NOBODY, SUSPENDED, is_candidate, pages_gained, victim


@victim
def proposed(requests, tiers, plan, requester, tokens):
    """Of all active requests that this pass has not served, the requester excepted, the one with the highest score."""
    best = NOBODY
    for r in range(len(requests.phase)):
        if requests.phase[r] == ACTIVE and r != requester and plan.scheduled[r] == 0:
            if best == NOBODY or (
                requests.gpu_pages[r] * requests.output_left[r] * requests.tokens[best]
                > requests.gpu_pages[best] * requests.output_left[best] * requests.tokens[r]
            ):
                best = r
    return best


@victim
def mended(requests, tiers, plan, requester, tokens):
    """The same among those behind the requester; the pages are those that their loss makes available."""
    best = NOBODY
    for phase in (ACTIVE, SUSPENDED):
        for r in range(requester + 1, len(requests.phase)):
            if requests.phase[r] == phase and is_candidate(requests, plan.scheduled, requester, r):
                gain = pages_gained(requests, tiers, requester, r)
                if gain > 0:
                    if best == NOBODY or (
                        gain * requests.output_left[r] * requests.tokens[best]
                        > pages_gained(requests, tiers, requester, best)
                        * requests.output_left[best]
                        * requests.tokens[r]
                    ):
                        best = r
        if best != NOBODY:
            return best
    return NOBODY
