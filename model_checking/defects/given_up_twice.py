"""K2 missing: a prefill picks a request that this pass has recompute-paused already, which frees nothing.

The list of the pass takes it a second time, as an engine's list does: the request is torn down only after
the pass, so nothing contradicts.
"""

from __future__ import annotations

from stallproof import plan as plans
from stallproof.candidates import is_candidate
from stallproof.plan import Plan
from stallproof.policies import RESIDENT_FIRST, victim
from stallproof.requests import NOBODY, RECOMPUTE_PAUSED, Requests
from stallproof.tiers import RECOMPUTE_PAUSE, Tiers


@victim
def newest_given_up_or_not(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> int:
    """The newest candidate, or whom this pass has given up already."""
    for v in range(len(requests.phase) - 1, requester, -1):
        if plan.given_up[v] or is_candidate(requests, plan.scheduled, requester, v):
            return v
    return NOBODY


def perform(requests: Requests, tiers: Tiers, plan: Plan, event: int, r: int, amount: int, requester: int) -> None:
    """As ever, but who is recompute-paused already is put on the list once more."""
    if event == RECOMPUTE_PAUSE and requests.phase[r] == RECOMPUTE_PAUSED:
        k = plan.operations[0]
        plan.event[k], plan.request[k], plan.amount[k], plan.requester[k] = event, r, amount, requester
        plan.operations[0] = k + 1
        return
    plans.perform(requests, tiers, plan, event, r, amount, requester)


POLICY = RESIDENT_FIRST.changed(
    "given-up-twice",
    "resident-first without K2: a prefill may pick whom this pass has given up already",
    victim_to_pause_for_prefill=newest_given_up_or_not,
)
REPLACED = {"scheduling.perform": perform}
