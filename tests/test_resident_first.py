"""The default policy keeps every promise in every bound tried; the published rules do not.

The numbers of ``helix-published`` are those that ``rules.md`` gives from a throw-away explorer and,
in part, from Rumur: found again here by another program.
"""

from __future__ import annotations

import networkx as nx
import pytest
from sweeps import BIT, STALLS, broken, broken_by_bounds, explored, facts_along, seventy_five

from stallproof.bounds import Bounds
from stallproof.claims import Verdict
from stallproof.explorer import SYSTEM_STEP
from stallproof.model import Kind, Move
from stallproof.plan import Rule
from stallproof.policies import HELIX_PUBLISHED, RESIDENT_FIRST
from stallproof.properties import NEEDS, NEEDS_COPIES

CANCEL = pytest.mark.parametrize("cancel", [True, False], ids=["cancel", "no-cancel"])

ROOMY_ENOUGH = [
    Bounds(live=3, gpu_pages=5, host_pages=2),
    Bounds(live=3, gpu_pages=6, host_pages=1, max_output=4),
    Bounds(live=4, gpu_pages=6, host_pages=2, max_prompt=4, max_output=4),
]
OTHERS = [
    Bounds(live=3, gpu_pages=4, host_pages=0),
    Bounds(live=3, gpu_pages=4, host_pages=1),
    Bounds(live=3, gpu_pages=4, host_pages=2),
    Bounds(live=3, gpu_pages=4, host_pages=2, chunk_tokens=1),
    Bounds(live=3, gpu_pages=5, host_pages=1, chunk_tokens=3),
    Bounds(live=3, gpu_pages=3, host_pages=1, page_tokens=2, max_output=4),
    Bounds(live=3, gpu_pages=3, host_pages=2, page_tokens=2, chunk_tokens=1, max_output=4),
    Bounds(live=3, gpu_pages=4, host_pages=0, page_tokens=2, chunk_tokens=3, max_prompt=4, max_output=4),
    Bounds(live=4, gpu_pages=4, host_pages=1, page_tokens=2, chunk_tokens=3, max_prompt=4, max_output=4),
    Bounds(live=2, gpu_pages=1, host_pages=0),
    Bounds(live=1, gpu_pages=5, host_pages=2),
    Bounds(live=5, gpu_pages=4, host_pages=1, max_prompt=2, max_output=2),
    Bounds(live=3, gpu_pages=4, host_pages=1, max_output=4, lookahead=1),
    Bounds(live=3, gpu_pages=4, host_pages=1, priorities=2),
    Bounds(live=3, gpu_pages=5, host_pages=1, pass_requests=2, pass_tokens=3),
    Bounds(live=3, gpu_pages=4, host_pages=2, copies=True),
    Bounds(live=3, gpu_pages=3, host_pages=2, page_tokens=2, copies=True, lookahead=1, priorities=2),
]

WITH_STATE = [
    Bounds(live=3, gpu_pages=5, host_pages=2, state_pages=1),
    Bounds(live=3, gpu_pages=6, host_pages=3, page_tokens=2, max_output=4, state_pages=2),
    Bounds(live=2, gpu_pages=5, host_pages=3, lookahead=1, copies=True, state_pages=1),
    Bounds(live=3, gpu_pages=4, host_pages=0, page_tokens=2, priorities=2, state_pages=1),
]


@pytest.mark.parametrize("bounds", WITH_STATE)
def test_it_holds_where_a_request_has_recurrent_state_too(bounds):
    findings = explored(RESIDENT_FIRST, bounds).findings
    assert {f.verdict for f in findings.values()} <= {Verdict.HOLDS, Verdict.NOT_APPLICABLE}
    assert explored(RESIDENT_FIRST, bounds).states > 100


def stalls(found):
    return [bounds for bounds, names in found.items() if names & STALLS]


@pytest.mark.parametrize("bounds", ROOMY_ENOUGH)
def test_it_holds_and_everything_that_may_happen_does(bounds):
    findings = explored(RESIDENT_FIRST, bounds).findings
    left_out = {name for name, finding in findings.items() if finding.verdict is Verdict.NOT_APPLICABLE}
    assert left_out == (set(NEEDS) | NEEDS_COPIES) - {"host-full-has-a-way-out"}
    assert {finding.verdict for name, finding in findings.items() if name not in left_out} == {Verdict.HOLDS}


@CANCEL
@pytest.mark.parametrize("bounds", OTHERS)
def test_it_keeps_every_promise(bounds, cancel):
    assert broken(explored(RESIDENT_FIRST, bounds._replace(cancel=cancel))) == set()


@CANCEL
def test_it_keeps_every_promise_in_all_75_bounds(cancel):
    assert broken_by_bounds(RESIDENT_FIRST, seventy_five(), cancel=cancel) == {}


@pytest.mark.parametrize("bounds", ROOMY_ENOUGH)
def test_requests_that_never_stop_early_are_served_too(bounds):
    assert broken(explored(RESIDENT_FIRST, bounds._replace(early_stop=False, max_prompt=3, max_output=3))) == set()


@CANCEL
def test_published_rules_stall_in_39_and_take_useless_victims_in_56_of_the_75_bounds(cancel):
    found = broken_by_bounds(HELIX_PUBLISHED, seventy_five(), cancel=cancel)
    assert len(stalls(found)) == 39
    assert sum("victim-makes-room" in names for names in found.values()) == 56


def test_published_rules_break_nothing_else():
    """A pass of theirs is wasteful or stuck, but it never loses a page or a token."""
    found = broken_by_bounds(HELIX_PUBLISHED, seventy_five())
    assert frozenset().union(*found.values()) == STALLS | HELIX_PUBLISHED.unclaimed


def test_published_rules_go_round_for_ever_with_six_pages_and_one_on_the_host():
    """rules.md: with 6 GPU pages and 1 host page, passes report suspensions for ever and compute nothing."""
    bounds = Bounds(live=3, gpu_pages=6, host_pages=1, max_output=4)
    finding = explored(HELIX_PUBLISHED, bounds).findings["no-livelock"]
    assert finding.verdict is Verdict.VIOLATED
    facts = facts_along(HELIX_PUBLISHED, bounds, finding.trace)
    loop = facts[finding.trace.loop_start :]
    assert loop
    assert all(bits >> BIT["no-livelock"] & bits >> BIT["sometimes-suspends"] & 1 for bits in loop)


def test_published_rules_die_without_a_host_tier_with_four_pages_and_two_requests():
    """rules.md: the shortest dead end has 2 requests on 4 GPU pages: a newer decode shields itself (K1)."""
    bounds = Bounds(live=2, gpu_pages=4, host_pages=0)
    finding = explored(HELIX_PUBLISHED, bounds).findings["no-dead-end"]
    assert finding.verdict is Verdict.VIOLATED
    loop = finding.trace.steps[finding.trace.loop_start + 1 :]
    assert [Move.of_label(step.label).kind for step in loop] == [Kind.PASS]
    assert facts_along(HELIX_PUBLISHED, bounds, finding.trace)[-1] >> BIT["no-dead-end"] & 1


@pytest.mark.parametrize("bounds", [Bounds(3, 4, 0), Bounds(3, 4, 1), Bounds(3, 6, 1, max_output=4), Bounds(2, 4, 2)])
@pytest.mark.parametrize("policy", [RESIDENT_FIRST, HELIX_PUBLISHED], ids=lambda policy: policy.name)
def test_networkx_finds_an_unfulfilled_cycle_with_a_pass_exactly_if_the_verdict_says_so(policy, bounds):
    """For each eventually-property: the edges that leave it unfulfilled, their components, a pass inside one."""
    exploration = explored(policy, bounds)
    sources = [exploration.source_of(edge) for edge in range(len(exploration.target))]
    for name in STALLS:
        kept = nx.MultiDiGraph()
        for source, target, bits in zip(sources, exploration.target.tolist(), exploration.facts.tolist(), strict=True):
            if bits >> BIT[name] & 1:
                kept.add_edge(source, target, is_pass=bits >> SYSTEM_STEP & 1)
        component = {state: i for i, states in enumerate(nx.strongly_connected_components(kept)) for state in states}
        refuted = any(
            is_pass and component[source] == component[target] for source, target, is_pass in kept.edges(data="is_pass")
        )
        assert (exploration.findings[name].verdict is Verdict.VIOLATED) == refuted


def test_every_rule_of_the_pass_fires_somewhere():
    """A rule that never fires would be no rule. H3 and K4 promotions need a host that is nearly full."""
    fired = sum(explored(RESIDENT_FIRST, bounds).fired for bounds in ROOMY_ENOUGH + OTHERS)
    assert [rule.name for rule in Rule if fired[rule] == 0] == []
