"""The defect shelf: each rule of ``resident-first`` is needed, shown by a policy without it.

Each defect is explored in the smallest bounds in which it breaks its property (fewest live requests,
then tokens, then pages; found by a search over some 5,700 bounds: 2 to 4 live, 2 to 7 GPU pages, 0 to
3 host pages, prompts and outputs to 4, chunks 1 to 3, pages of 1 and 2 tokens). ``resident-first``
holds in the same bounds, so it is the missing rule that made the difference.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from situations import Situation, decide, decode, suspended_decode, tables, waiting
from sweeps import BIT, STALLS, broken, broken_by_bounds, explored, facts_along, seventy_five

from model_checking.defects import (
    bypass,
    bypass_of_waiting,
    context_ignores_suspended,
    eager_resume,
    freed_pages_stolen,
    host_resident_victim,
    impatient_self_suspension,
    no_promotion,
    priority_inversion,
    shielded_by_newer_decode,
    suspended_before_active,
    victims_in_vain,
)
from stallproof.bounds import Bounds
from stallproof.claims import Kind, Verdict
from stallproof.model import Kind as MoveKind
from stallproof.model import LifecycleModel, Move, unpack
from stallproof.policies import POLICIES, RESIDENT_FIRST, Policy
from stallproof.tiers import RESUME, SUSPEND


class Defect(NamedTuple):
    """What is missing, what breaks, where."""

    rule: str
    policy: Policy
    breaks: str
    bounds: Bounds


def small(live, gpu_pages, host_pages, page_tokens, chunk_tokens, max_prompt, max_output):
    return Bounds(live, gpu_pages, host_pages, page_tokens, chunk_tokens, max_prompt, max_output)


SHELF = [
    Defect("R1, R7", host_resident_victim.POLICY, "victim-makes-room", small(3, 3, 1, 1, 1, 1, 2)),
    Defect("R2", no_promotion.POLICY, "oldest-finishes", small(3, 2, 1, 2, 2, 2, 2)),
    Defect("R3", shielded_by_newer_decode.POLICY, "no-dead-end", small(2, 2, 0, 1, 1, 1, 2)),
    Defect("R4", bypass.POLICY, "oldest-finishes", small(3, 3, 0, 1, 2, 1, 2)),
    Defect("R4 as worded", bypass_of_waiting.POLICY, "oldest-finishes", small(3, 3, 0, 1, 2, 1, 2)),
    Defect("R5", freed_pages_stolen.POLICY, "oldest-finishes", small(3, 2, 0, 1, 1, 1, 2)),
    Defect("R7", victims_in_vain.POLICY, "only-when-needed", small(3, 3, 1, 2, 1, 1, 4)),
    Defect("K4", context_ignores_suspended.POLICY, "no-dead-end", small(2, 3, 1, 1, 1, 2, 3)),
    Defect("K3 before K4", suspended_before_active.POLICY, "active-victim-first", small(3, 4, 2, 1, 1, 2, 4)),
]
RICHER = [
    Defect("R9", priority_inversion.POLICY, "no-priority-inversion", Bounds(gpu_pages=4, host_pages=0, priorities=2)),
    Defect("R10", impatient_self_suspension.POLICY, "no-livelock", Bounds(gpu_pages=4, host_pages=2, copies=True)),
]
"""Rules about what is off by default."""

DEFECTS = pytest.mark.parametrize("defect", [*SHELF, *RICHER], ids=[defect.policy.name for defect in [*SHELF, *RICHER]])
IN_PLAIN_BOUNDS = pytest.mark.parametrize("defect", SHELF, ids=[defect.policy.name for defect in SHELF])


def test_no_defect_has_the_name_of_another_or_of_a_real_policy():
    names = [*POLICIES, *(defect.policy.name for defect in [*SHELF, *RICHER]), eager_resume.POLICY.name]
    assert len(set(names)) == len(names)


@DEFECTS
def test_without_the_rule_the_property_is_violated_where_resident_first_holds(defect):
    assert explored(defect.policy, defect.bounds).findings[defect.breaks].verdict is Verdict.VIOLATED
    assert broken(explored(RESIDENT_FIRST, defect.bounds)) == set()


@DEFECTS
def test_the_counterexample_replays_and_really_breaks_the_property(defect):
    """An always-property: by its last step. An eventually-property: by every step of a loop that contains a pass."""
    finding = explored(defect.policy, defect.bounds).findings[defect.breaks]
    facts = facts_along(defect.policy, defect.bounds, finding.trace)
    if finding.claim.kind is Kind.ALWAYS:
        assert finding.trace.loop_start is None
        assert [bits >> BIT[defect.breaks] & 1 for bits in facts] == [0] * (len(facts) - 1) + [1]
    else:
        start = finding.trace.loop_start
        loop = facts[start:]
        assert all(bits >> BIT[defect.breaks] & 1 for bits in loop)
        assert finding.trace.steps[start].row.tolist() == finding.trace.steps[-1].row.tolist()
        moves = [Move.of_label(step.label) for step in finding.trace.steps[start + 1 :]]
        assert Move(MoveKind.PASS) in moves


@IN_PLAIN_BOUNDS
def test_the_75_bounds_show_the_defect_too(defect):
    found = broken_by_bounds(defect.policy, seventy_five())
    assert any(defect.breaks in names for names in found.values())


@IN_PLAIN_BOUNDS
def test_a_missing_rule_loses_no_page_and_no_token(defect):
    """What breaks is progress or thrift; nothing that the lifecycle or the page counts promise."""
    found = broken_by_bounds(defect.policy, [defect.bounds, Bounds(), Bounds(3, 6, 1, max_output=4)])
    names = frozenset().union(*found.values())
    assert names <= STALLS | {"host-full-has-a-way-out", "victim-makes-room", "only-when-needed", "active-victim-first"}


# ---- Two rules whose absence alone breaks nothing --------------------------------------------------


def test_r1_alone_changes_no_state_and_no_transition_because_r7_implies_it():
    """The argument stands in the defect's file, its lemma in ``test_candidates.py``."""
    for bounds in seventy_five():
        with_r1 = explored(RESIDENT_FIRST, bounds)
        without = explored(host_resident_victim.R1_ALONE, bounds)
        assert with_r1.rows.tolist() == without.rows.tolist()
        assert with_r1.target.tolist() == without.target.tolist()
        assert with_r1.fired.tolist() == without.fired.tolist()


def test_without_r8_no_promise_is_broken_in_the_75_bounds():
    assert broken_by_bounds(eager_resume.POLICY, seventy_five()) == {}


def test_without_r8_a_request_resumes_in_vain_and_its_pages_are_copied_for_nothing():
    """5 GPU pages: R0 takes its third, 2 are free. R1 has 2 on the host and its third token needs a third page.

    Without R8 it brings both pages up and suspends itself; R2 then wants 2 pages and sends them down again.
    """
    rows = [decode(2, 3), suspended_decode(0, 2), waiting(2)]
    situation = Situation(5, 4, rows)
    copied = {}
    for policy in (RESIDENT_FIRST, eager_resume.POLICY):
        requests, tiers = tables(situation)
        decided = decide(requests, tiers, policy.rules, situation.chunk)
        copied[policy.name] = sum(amount for event, _, amount, _ in decided.events if event in ("resume", "migrate"))
        assert decided.scheduled == [1, 0, 2]
    assert copied == {"resident-first": 0, "eager-resume": 4}


@pytest.mark.parametrize(
    ("policy", "happens"), [(RESIDENT_FIRST, False), (eager_resume.POLICY, True)], ids=["with R8", "without R8"]
)
def test_only_without_r8_a_request_resumes_and_suspends_itself_in_one_pass(policy, happens):
    """With R8 whoever resumes is scheduled, and whoever is scheduled is no candidate. Every pass from every state."""
    model = LifecycleModel(policy, Bounds(live=3, gpu_pages=4, host_pages=2))
    step = model.new_step()
    both = 0
    for row in explored(policy, model.bounds).rows:
        unpack(row, step.before, step.tiers_before)
        model.run(step, Move(MoveKind.PASS))
        planned = range(int(step.plan.operations[0]))
        done = {(int(step.plan.event[k]), int(step.plan.request[k])) for k in planned}
        both += any((RESUME, r) in done and (SUSPEND, r) in done for r in range(model.bounds.live))
    assert (both > 0) == happens
