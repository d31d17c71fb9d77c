"""R1 and R7 missing: victims are chosen without looking where their pages are, and in vain.

R1 alone can be dropped: with R7 it changes nothing. R7 gives somebody up only if all candidates
together make the requester fit, and active ones go first. Once no active candidate is left, the
loss of a suspended one makes room exactly if the host is too full for all held pages of the others
to migrate (``pages_gained``), and that is one condition for all suspended candidates alike: either
each of them helps, or none does; and if none does, what all of them bring is what is available
already. So whom R1 would spare, R7 never lets the pass ask about. :data:`R1_ALONE` is that policy.
"""

from __future__ import annotations

from stallproof.candidates import newest_candidate
from stallproof.plan import Plan
from stallproof.policies import RESIDENT_FIRST, victim
from stallproof.policies.interface import yes
from stallproof.requests import ACTIVE, NOBODY, SUSPENDED, Requests
from stallproof.tiers import Tiers


@victim
def newest_wherever_its_pages_are(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> int:
    """R2, R3: the newest candidate, active before suspended, even where its loss makes no room."""
    active = newest_candidate(requests, plan.scheduled, requester, ACTIVE)
    if active != NOBODY:
        return active
    return newest_candidate(requests, plan.scheduled, requester, SUSPENDED)


R1_ALONE = RESIDENT_FIRST.changed(
    "resident-first-without-r1",
    "resident-first without R1: the same decisions, since R7 implies it",
    victim_to_pause_for_decode=newest_wherever_its_pages_are,
    victim_to_pause_for_prefill=newest_wherever_its_pages_are,
)

POLICY = R1_ALONE.changed(
    "host-resident-victim",
    "resident-first without R1 and R7: victims are chosen without residency",
    worth_giving_up=yes,
)
