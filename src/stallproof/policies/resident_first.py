"""``resident-first``: the default policy. Rules H1-H5 and K1-K7 with the changes R1-R10.

Why the oldest live request always finishes, and so, by induction, everybody does:

1. It is behind nobody, and a victim is always behind its requester. So it never loses its pages to
   another request.
2. Its peak fits the GPU alone, or it would have been refused at arrival. So the pages it lacks are
   free, or somebody behind it has them.
3. Whoever has them and is not scheduled in this pass is a candidate (R2, R3), and is given up if
   all candidates together bring enough (R7, R1). Whoever is scheduled computes a token, and has a
   bounded number of tokens left.
4. While it is blocked nobody behind it is admitted (R4), and what was freed for it is not given
   away in the same pass (R5). So the requests of step 3 only get fewer, until it fits.
5. Each pass in which it fits computes at least one of its tokens. It has a bounded number left, so
   it finishes; and then another request is the oldest.

The checker confirms it as the property ``oldest-finishes``.
"""

from __future__ import annotations

from stallproof.candidates import available_without_candidates, newest_candidate, newest_helpful_candidate
from stallproof.plan import Plan
from stallproof.policies.interface import Policy, Rules, decision, victim, yes
from stallproof.requests import ACTIVE, NOBODY, Requests, live
from stallproof.tiers import Tiers, available, has_lower_tier, missing_pages


@decision
def can_run_if_resumed(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> bool:
    """R8: a suspended request takes its pages back only together with those of its next tokens."""
    return missing_pages(requests, tiers, requester, tokens) <= available(requests, tiers, requester)


@decision
def would_fit_without_candidates(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> bool:
    """R7: nobody is given up in vain; all candidates together must make the requester fit."""
    room = available_without_candidates(requests, tiers, plan.scheduled, requester)
    return missing_pages(requests, tiers, requester, tokens) <= room


@victim
def newest_active(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> int:
    """H2: with a lower tier, the newest active started request behind the requester."""
    if not has_lower_tier(tiers):
        return NOBODY
    return newest_candidate(requests, plan.scheduled, requester, ACTIVE)


@victim
def newest_helpful(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> int:
    """R1, R2, R3: the newest candidate whose loss makes room, active before suspended.

    Decodes are candidates like any other (R3), and so is a request that this pass suspended (R2).
    """
    return newest_helpful_candidate(requests, tiers, plan.scheduled, requester)


@decision
def with_lower_tier(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> bool:
    """H4: only with a tier below the GPU."""
    return has_lower_tier(tiers)


@decision
def everybody_before_was_served(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> bool:
    """R9: a lower priority gets pages only if nobody above it is left without, for another reason than a copy."""
    for r in range(requester):
        if live(requests, r) and plan.scheduled[r] == 0 and requests.copying[r] == 0:
            return False
    return True


RESIDENT_FIRST = Policy(
    name="resident-first",
    summary="the default: a victim must make room, nobody is given up in vain, nobody is overtaken",
    rules=Rules(
        worth_resuming=can_run_if_resumed,  # R8
        worth_giving_up=would_fit_without_candidates,  # R7
        victim_to_suspend=newest_active,
        victim_to_pause_for_decode=newest_helpful,  # R1, R2
        suspends_itself=with_lower_tier,
        victim_to_pause_for_prefill=newest_helpful,  # R1, R2, R3
        keeps_freed_pages=yes,  # R5
        lets_nobody_pass=yes,  # R4
        waits_for_copies=yes,  # R10
        serves_next_priority=everybody_before_was_served,  # R9
    ),
)
