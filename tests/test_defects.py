"""Each rule of ``resident-first`` is needed, shown by the policies of the shelf that go without one.

The shelf itself, defect by defect, is ``test_shelf.py``'s. Here: what policies one rule away break in many bounds, and
the rules whose absence breaks nothing.
"""

from __future__ import annotations

import pytest
from situations import Situation, decide, decode, prefill, suspended_decode, suspended_prefill, tables, waiting
from sweeps import STALLS, broken_by_bounds, explored, seventy_five

from model_checking.defects import SHELF, eager_resume, host_resident_victim, no_fallback_on_resume
from model_checking.shelf import module_of
from stallproof.bounds import Bounds
from stallproof.model import Kind as MoveKind
from stallproof.model import LifecycleModel, Move, unpack
from stallproof.policies import RESIDENT_FIRST
from stallproof.tiers import RESUME, SUSPEND


def alone(defect):
    """Is one policy, with nothing of the shipped code replaced, held against ``resident-first`` in plain bounds."""
    module = module_of(defect.name)
    changed = (hasattr(module, name) for name in ("REPLACED", "GOOD_POLICY", "ranks"))
    plain = defect.bounds.priorities == 1 and not defect.bounds.copies
    return plain and not any(changed)


BY_POLICY = [defect for defect in SHELF if alone(defect)]
UNSAFE = {"scheduled-victim", "suspend-without-lower-tier"}
"""The two whose defect is what the lifecycle or the page counts promise, so they break that too."""

IN_PLAIN_BOUNDS = pytest.mark.parametrize("defect", BY_POLICY, ids=[defect.name for defect in BY_POLICY])


@IN_PLAIN_BOUNDS
def test_the_75_bounds_show_the_defect_too(defect):
    found = broken_by_bounds(module_of(defect.name).POLICY, seventy_five())
    assert any(defect.breaks in names for names in found.values())


@pytest.mark.parametrize("name", [defect.name for defect in BY_POLICY if defect.name not in UNSAFE])
def test_a_missing_rule_loses_no_page_and_no_token(name):
    """What breaks is progress or thrift; nothing that the lifecycle or the page counts promise."""
    bounds = next(defect.bounds for defect in SHELF if defect.name == name)
    found = broken_by_bounds(module_of(name).POLICY, [bounds, Bounds(), Bounds(3, 6, 1, max_output=4)])
    names = frozenset().union(*found.values())
    assert names <= STALLS | {"host-full-has-a-way-out", "victim-makes-room", "only-when-needed", "active-victim-first"}


# ---- Rules whose absence alone breaks nothing --- --------------------------------------------------


def test_r1_alone_changes_no_state_and_no_transition_because_r7_implies_it():
    """The argument stands in the defect's file, its lemma in ``test_candidates.py``."""
    for bounds in seventy_five():
        with_r1 = explored(RESIDENT_FIRST, bounds)
        without = explored(host_resident_victim.R1_ALONE, bounds)
        assert with_r1.rows.tolist() == without.rows.tolist()
        assert with_r1.target.tolist() == without.target.tolist()
        assert with_r1.fired.tolist() == without.fired.tolist()


def test_with_r4_the_fallback_of_a_suspended_prefill_changes_no_state_and_no_transition():
    for bounds in seventy_five():
        with_it = explored(RESIDENT_FIRST, bounds)
        without = explored(no_fallback_on_resume.WITH_R4, bounds)
        assert with_it.rows.tolist() == without.rows.tolist()
        assert with_it.target.tolist() == without.target.tolist()


@pytest.mark.parametrize(
    ("policy", "decided"),
    [(RESIDENT_FIRST, ["recompute-pause"]), (no_fallback_on_resume.WITH_R4, [])],
    ids=["with the fallback", "without"],
)
def test_but_from_a_state_in_which_a_newer_prefill_has_all_pages_only_the_fallback_leads_on(policy, decided):
    """Scenario A4: 4 GPU pages, 2 on the host. R0 has 2 on the host, R1 all 4 of the GPU, and each wants one more."""
    requests, tiers = tables(Situation(4, 2, [suspended_prefill(0, 2, 1), prefill(4, 1)]))
    assert [event for event, *_ in decide(requests, tiers, policy.rules, 2).events] == decided


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
