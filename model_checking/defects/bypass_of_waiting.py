"""R4 as ``rules.md`` words it: the context phase ends only at a blocked request that has *started*.

A blocked request that waits for its first chunk is then overtaken by smaller ones behind it, which
decode in the next pass before it is asked again; an endless stream of them starves it.
"""

from __future__ import annotations

from stallproof.plan import Plan
from stallproof.policies import RESIDENT_FIRST, decision
from stallproof.requests import Requests
from stallproof.tiers import Tiers


@decision
def only_started_ones(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> bool:
    """The context phase ends at a blocked request only if it has computed something."""
    return requests.computed[requester] > 0


POLICY = RESIDENT_FIRST.changed(
    "bypass-of-waiting",
    "resident-first, but newer requests pass a blocked one that has not started",
    lets_nobody_pass=only_started_ones,
)
