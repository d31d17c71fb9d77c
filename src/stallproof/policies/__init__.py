"""The policies, by name. Each stands in a small file of its own."""

from __future__ import annotations

from stallproof.errors import UnknownPolicy
from stallproof.policies.helix_published import HELIX_PUBLISHED
from stallproof.policies.interface import Policy, Rules, decision, victim
from stallproof.policies.resident_first import RESIDENT_FIRST

POLICIES: dict[str, Policy] = {policy.name: policy for policy in (RESIDENT_FIRST, HELIX_PUBLISHED)}


def policy_named(name: str) -> Policy:
    """The policy called ``name``. Raises UnknownPolicy, listing those there are."""
    if name not in POLICIES:
        raise UnknownPolicy(
            f"there is no policy '{name}'", "--policy", f"Choose one of: {', '.join(sorted(POLICIES))}."
        )
    return POLICIES[name]


__all__ = ["POLICIES", "Policy", "Rules", "decision", "policy_named", "victim"]
