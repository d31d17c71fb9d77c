"""A request finishes in two halves: its pages are released before the pass, and it leaves the running list after it.

In between it is a victim, and its pages are released again: two requests get the same page. Right is
:data:`GOOD_POLICY`, where pages, phase and list change together.
"""

from __future__ import annotations

from model_checking.defects.finalising_victim import compute_only, finalising, wants_to_decode
from stallproof.plan import SELF, Plan, perform
from stallproof.policies import RESIDENT_FIRST, decision
from stallproof.requests import ACTIVE, FINISHED, Requests
from stallproof.tiers import FINISH, Tiers


@decision
def finish(requests: Requests, tiers: Tiers, plan: Plan, chunk_tokens: int, lookahead: int) -> bool:
    """Before the pass decides anything: who has its last token goes."""
    for r in range(len(requests.phase)):
        if finalising(requests, r):
            perform(requests, tiers, plan, FINISH, r, 0, SELF)
    return False


@decision
def finish_but_stay_listed(requests: Requests, tiers: Tiers, plan: Plan, chunk_tokens: int, lookahead: int) -> bool:
    """The pages are released; the request is still listed as running, with the pages it had."""
    for r in range(len(requests.phase)):
        if finalising(requests, r):
            pages = requests.gpu_pages[r]
            perform(requests, tiers, plan, FINISH, r, 0, SELF)
            requests.phase[r], requests.gpu_pages[r] = ACTIVE, pages
    return False


def compute(requests: Requests, tiers: Tiers, plan: Plan) -> int:
    """Who is still listed leaves the list; then the tokens of this step."""
    for r in range(len(requests.phase)):
        if finalising(requests, r):
            requests.phase[r], requests.gpu_pages[r] = FINISHED, 0
    return compute_only(requests, plan)


REPLACED = {"scheduling.wants_to_decode": wants_to_decode, "model.compute": compute, "certifier.compute": compute}
GOOD = REPLACED
GOOD_POLICY = RESIDENT_FIRST.changed(
    "results-late", "resident-first; the results of a step are processed when the next pass begins", own_pass=finish
)
POLICY = RESIDENT_FIRST.changed(
    "double-release",
    "resident-first; the results of a step release pages before the pass, and end requests after it",
    own_pass=finish_but_stay_listed,
)
