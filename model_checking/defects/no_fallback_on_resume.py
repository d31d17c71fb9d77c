"""A suspended prefill that cannot resume just waits: the context phase gives nobody up for it.

With R4, :data:`WITH_R4`, that breaks nothing in 2,160 bounds, and the graphs of the 75 are the same with and without
it. So both policies here go without R4. The good one starves requests but never comes to a dead end.
"""

from __future__ import annotations

from model_checking.defects import bypass
from stallproof.candidates import newest_helpful_candidate
from stallproof.plan import Plan
from stallproof.policies import RESIDENT_FIRST, victim
from stallproof.requests import NOBODY, SUSPENDED, Requests
from stallproof.tiers import Tiers


@victim
def nobody_for_a_suspended_one(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> int:
    """R1, R2, R3 for a prefill that cannot grow; nobody for one that cannot resume."""
    if requests.phase[requester] == SUSPENDED:
        return NOBODY
    return newest_helpful_candidate(requests, tiers, plan.scheduled, requester)


WITH_R4 = RESIDENT_FIRST.changed(
    "no-fallback-on-resume-with-r4",
    "resident-first, but a prefill that cannot resume waits",
    victim_to_pause_for_prefill=nobody_for_a_suspended_one,
)
POLICY = bypass.POLICY.changed(
    "no-fallback-on-resume",
    "bypass, and a prefill that cannot resume waits",
    victim_to_pause_for_prefill=nobody_for_a_suspended_one,
)
GOOD_POLICY = bypass.POLICY
