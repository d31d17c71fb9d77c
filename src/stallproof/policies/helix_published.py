"""``helix-published``: aggregated Helix with a host tier, as the TensorRT-LLM pull request 21455 describes it.

Our reading of the published rules: the pull request's text and review, not its code, which was not
available. Uncertain: K1's exact predicate (here: an *active* decode holds GPU pages), K6, and
whether a failed growth after a resume leaves the pages locked (here: it does).
"""

from __future__ import annotations

from stallproof.candidates import is_candidate, newest_candidate
from stallproof.plan import Plan
from stallproof.policies.interface import Policy, Rules, no, victim, yes
from stallproof.policies.resident_first import everybody_before_was_served, newest_active, with_lower_tier
from stallproof.requests import ACTIVE, NOBODY, SUSPENDED, Requests
from stallproof.tiers import Tiers, has_lower_tier


@victim
def newest_started(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> int:
    """H3: the newest started request behind the requester, active or suspended, wherever its pages are."""
    return max(
        newest_candidate(requests, plan.scheduled, requester, ACTIVE),
        newest_candidate(requests, plan.scheduled, requester, SUSPENDED),
    )


@victim
def newest_behind_unless_a_decode_runs(
    requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int
) -> int:
    """K1-K5: the newest active candidate that this pass has not given up, else the newest suspended one."""
    for r in range(len(requests.phase)):
        if requests.phase[r] == ACTIVE and requests.decoding[r] and requests.gpu_pages[r] > 0:
            return NOBODY  # K1
    for phase in (ACTIVE, SUSPENDED):  # K3, K4
        if phase == SUSPENDED and not has_lower_tier(tiers):
            return NOBODY
        for v in range(len(requests.phase) - 1, requester, -1):
            if requests.phase[v] == phase and not plan.given_up[v]:  # K2
                if is_candidate(requests, plan.scheduled, requester, v):
                    return v
    return NOBODY  # K5


HELIX_PUBLISHED = Policy(
    name="helix-published",
    summary="our reading of the published rules of aggregated Helix with a host tier",
    rules=Rules(
        worth_resuming=yes,
        worth_giving_up=yes,
        victim_to_suspend=newest_active,
        victim_to_pause_for_decode=newest_started,
        suspends_itself=with_lower_tier,
        victim_to_pause_for_prefill=newest_behind_unless_a_decode_runs,
        keeps_freed_pages=yes,
        lets_nobody_pass=no,
        waits_for_copies=yes,
        serves_next_priority=everybody_before_was_served,
    ),
    # The pull request names useless victims as a known limitation, so it does not claim their absence.
    unclaimed=frozenset({"victim-makes-room", "only-when-needed"}),
)
