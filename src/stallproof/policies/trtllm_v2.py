"""``trtllm-v2``: the V2 scheduler of TensorRT-LLM without Helix, over a GPU pool with or without a host tier.

Source: ``scheduler_v2.py`` and the V2 cache manager (2026, commits 00746ef9 and 234a2f2d), read as ladders:

- G1 resume and grow. G2 suspend the newest active started request behind, even without a tier below the
  GPU, where it frees nothing. G3 recompute-pause the newest started request behind, active or suspended;
  without a lower tier not one that this pass suspended. G4 suspend itself, with or without a lower tier. G5
  end the phase.
- Prefills at or behind the end of the generation phase are not looked at in this pass.
- B1 with a lower tier a prefill waits. B3 without one it recompute-pauses the newest active started request
  of the whole list that is not scheduled, older ones too, and the phase ends. B4 else it waits, and others
  pass it. A suspended prefill that cannot resume just waits.

Our reading. Uncertain or not modelled: the gate on resuming above a utilisation of 0.95 (in a pool as small
as those we explore it refuses while nothing is free, and a livelock of resuming and self-suspension becomes
a dead end), drafts of their own pools, shared prefixes, requests without chunks (the phase would end at the
first that waits). Copies are ordered by streams there, so ``--copies`` says nothing about it, nor do
priorities.

Not claimed: ``victim-makes-room`` and ``only-when-needed`` (victims are chosen without looking where their
pages are, as the pull request 21455 says of both ladders); ``victim-behind-requester`` (B3);
``no-suspension-without-lower-tier`` and with it ``legal-transition``, since our lifecycle suspends only
where there is a lower tier (G2, G4); ``sometimes-recompute-pauses-active`` (with a lower tier G2 has
suspended all it could).
"""

from __future__ import annotations

from stallproof.candidates import is_candidate, newest_candidate
from stallproof.plan import Plan
from stallproof.policies.interface import Policy, Rules, no, victim, yes
from stallproof.policies.resident_first import everybody_before_was_served
from stallproof.requests import ACTIVE, NOBODY, SUSPENDED, Requests, started
from stallproof.tiers import Tiers, has_lower_tier


@victim
def newest_active(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> int:
    """G2: the newest active started request behind the requester, whether or not there is a lower tier."""
    return newest_candidate(requests, plan.scheduled, requester, ACTIVE)


@victim
def newest_started(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> int:
    """G3: the newest started request behind the requester; one that this pass suspended only with a lower tier."""
    for v in range(len(requests.phase) - 1, requester, -1):
        if is_candidate(requests, plan.scheduled, requester, v):
            if has_lower_tier(tiers) or not plan.given_up[v]:
                return v
    return NOBODY


@victim
def newest_active_of_all(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> int:
    """B1-B4: without a lower tier the newest active started request that is not scheduled, before or behind."""
    if has_lower_tier(tiers) or requests.phase[requester] == SUSPENDED:
        return NOBODY
    for v in range(len(requests.phase) - 1, -1, -1):
        if requests.phase[v] == ACTIVE and started(requests, v) and v != requester and plan.scheduled[v] == 0:
            return v
    return NOBODY


TRTLLM_V2 = Policy(
    name="trtllm-v2",
    summary="our reading of TensorRT-LLM's V2 scheduler without Helix",
    rules=Rules(
        worth_resuming=yes,
        worth_giving_up=yes,
        victim_to_suspend=newest_active,  # G2
        victim_to_pause_for_decode=newest_started,  # G3
        suspends_itself=yes,  # G4
        victim_to_pause_for_prefill=newest_active_of_all,  # B1-B4
        keeps_freed_pages=yes,
        lets_nobody_pass=no,
        waits_for_copies=yes,
        serves_next_priority=everybody_before_was_served,
        prefills_behind_the_end=no,
    ),
    unclaimed=frozenset(
        {
            "victim-makes-room",
            "only-when-needed",
            "victim-behind-requester",
            "no-suspension-without-lower-tier",
            "legal-transition",
            "sometimes-recompute-pauses-active",
        }
    ),
)
