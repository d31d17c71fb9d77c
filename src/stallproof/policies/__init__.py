"""The policies, by name, and what a rule of your own is written with (``docs/write-a-policy.md``).

Each policy stands in a small file of its own, with its source and what is uncertain.

The Murphi text in ``spec/`` describes ``resident-first`` and ``helix-published`` alone. The others model
what engines do; whatever is found in one is a finding about our reading of it.
"""

from __future__ import annotations

from stallproof.candidates import available_without_candidates, is_candidate, newest_candidate, pages_gained
from stallproof.errors import UnknownPolicy
from stallproof.policies.helix_disaggregated import HELIX_DISAGGREGATED
from stallproof.policies.helix_published import HELIX_PUBLISHED
from stallproof.policies.interface import Policy, Rules, decision, victim
from stallproof.policies.lightllm_pause import LIGHTLLM_PAUSE
from stallproof.policies.loading import names_a_file, policy_from_file
from stallproof.policies.resident_first import RESIDENT_FIRST
from stallproof.policies.sglang_retract import SGLANG_RETRACT
from stallproof.policies.swap_first import SWAP_FIRST
from stallproof.policies.trtllm_max_utilization import TRTLLM_MAX_UTILIZATION
from stallproof.policies.trtllm_no_evict import TRTLLM_NO_EVICT
from stallproof.policies.trtllm_v2 import TRTLLM_V2
from stallproof.policies.vllm_fcfs import VLLM_FCFS
from stallproof.policies.vllm_priority import VLLM_PRIORITY
from stallproof.requests import ACTIVE, NOBODY, RECOMPUTE_PAUSED, SUSPENDED, WAITING, live, started
from stallproof.room import waits
from stallproof.tiers import GPU, HOST, available, has_lower_tier, missing_pages, pages_to_hold

POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        RESIDENT_FIRST,
        HELIX_PUBLISHED,
        HELIX_DISAGGREGATED,
        TRTLLM_V2,
        TRTLLM_MAX_UTILIZATION,
        TRTLLM_NO_EVICT,
        VLLM_FCFS,
        VLLM_PRIORITY,
        SGLANG_RETRACT,
        LIGHTLLM_PAUSE,
        SWAP_FIRST,
    )
}


def policy_named(name: str) -> Policy:
    """The policy called ``name``, or the one at ``FILE.py:NAME``.

    Raises UnknownPolicy, listing those there are, and PolicyFileError.
    """
    if names_a_file(name):
        return policy_from_file(name)
    if name not in POLICIES:
        remedy = f"Choose one of: {', '.join(sorted(POLICIES))}. Or give your own as FILE.py:NAME."
        raise UnknownPolicy(f"there is no policy '{name}'", "--policy", remedy)
    return POLICIES[name]


QUESTIONS = (
    live,
    waits,
    started,
    is_candidate,
    newest_candidate,
    pages_gained,
    available,
    available_without_candidates,
    missing_pages,
    pages_to_hold,
    has_lower_tier,
)
"""What a rule may ask of the tables; each is a function it can call."""

__all__ = [
    "ACTIVE",
    "GPU",
    "HOST",
    "NOBODY",
    "POLICIES",
    "QUESTIONS",
    "RECOMPUTE_PAUSED",
    "RESIDENT_FIRST",
    "SUSPENDED",
    "WAITING",
    "Policy",
    "Rules",
    "available",
    "available_without_candidates",
    "decision",
    "has_lower_tier",
    "is_candidate",
    "live",
    "missing_pages",
    "newest_candidate",
    "pages_gained",
    "pages_to_hold",
    "policy_named",
    "started",
    "victim",
    "waits",
]
