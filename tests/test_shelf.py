"""The defect shelf: every defect breaks its property in so many steps, and what is right does not.

Each stands in the smallest bounds in which it was found to break its property: fewest live requests, then tokens, then
pages. The explorer refutes it; the certifier replays the trace; a plain search finds no shorter one. Where the Murphi
text can have the defect too, Rumur finds the same failure in as many steps.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sweeps import BIT, broken, explored, facts_along

from model_checking import defects, rumur, shelf, twins, variants
from model_checking.defects import SHELF
from stallproof.claims import Kind, Verdict
from stallproof.model import Kind as MoveKind
from stallproof.model import LifecycleModel, Move
from stallproof.policies import POLICIES, RESIDENT_FIRST
from stallproof.properties import PROPERTIES
from stallproof.worst_cases import SENTENCES, worst_cases

ROOT = Path(defects.__file__).parents[2]
KINDS = {claim.name: claim.kind for claim in PROPERTIES}
OF_A_NAME = pytest.mark.parametrize("defect", SHELF, ids=[defect.name for defect in SHELF])

COMPILED = [
    defect for defect in SHELF if defect.breaks in KINDS and not hasattr(shelf.module_of(defect.name), "REPLACED")
]
"""Those that are a policy alone: the compiled explorer can have them."""

SAME_BOUNDS = [
    defect for defect in SHELF if not {"GOOD", "GOOD_POLICY", "good_ranks"} & set(vars(shelf.module_of(defect.name)))
]
"""Those held against ``resident-first``."""


@pytest.fixture(scope="module")
def refuted():
    """What the shelf found of each defect, interpreted, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "model_checking.shelf"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )
    assert done.returncode == 0, done.stderr
    return {name: shelf.Refutation(**found) for name, found in json.loads(done.stdout).items()}


# ---- The table ------------------------------------------------------------------------------------


def test_every_file_is_a_row_of_the_table_but_for_the_one_that_breaks_nothing():
    files = {path.stem.replace("_", "-") for path in Path(defects.__file__).parent.glob("*.py")} - {"--init--"}
    assert files - {"eager-resume"} == {defect.name for defect in SHELF}
    assert len({defect.name for defect in SHELF}) == len(SHELF)


@OF_A_NAME
def test_a_policy_of_the_shelf_has_the_name_of_its_row_and_a_real_one_is_not_renamed(defect):
    policy = shelf.module_of(defect.name).POLICY
    assert policy.name == defect.name or POLICIES[policy.name] is policy
    assert defect.name not in POLICIES


def test_every_defect_breaks_a_property_that_there_is():
    """All but one: how often one request is preempted has a maximum, and no sentence that is true or false."""
    guarantees = {name for name, kind in KINDS.items() if kind is not Kind.SOMETIMES}
    others = {defect.breaks for defect in SHELF} - guarantees
    assert others == {"ranks-agree", "preemptions_of_one_request"}
    assert "preemptions_of_one_request" in SENTENCES


def test_the_ten_scenarios_are_told_and_each_has_a_defect():
    told = (ROOT / "docs" / "defects.md").read_text(encoding="utf-8")
    assert [f"A{k}" for k in range(1, 11)] == [defect.scenario for defect in SHELF if defect.scenario]
    assert all(f"\n| A{k} | " in told for k in range(1, 11))


# ---- Every defect ---------------------------------------------------------------------------------


@OF_A_NAME
def test_it_breaks_its_property_in_as_many_steps_as_the_table_says_and_no_run_is_shorter(defect, refuted):
    found = refuted[defect.name]
    assert found.steps == defect.steps
    if defect.breaks in SENTENCES:
        assert found.plainly < found.steps  # what is right
    else:
        assert found.plainly == defect.steps
        assert defect.breaks in found.broken


@OF_A_NAME
def test_its_run_is_certified(defect, refuted):
    """By its last step, by a loop, by ranks that part; or the certifier's own arithmetic objects to the last state."""
    certificate = refuted[defect.name].certificate
    if defect.breaks == "ranks-agree":
        assert certificate.startswith("the ranks part in pass ")
    elif defect.breaks in SENTENCES:
        assert certificate.startswith("counted again over ")
    elif KINDS[defect.breaks] is Kind.EVENTUALLY:
        assert certificate.startswith(f"{defect.steps} steps, the last ")
    elif defect.breaks == "phase-residency":
        assert certificate.startswith(f"step {defect.steps}: ")
        assert certificate.endswith(" and holds other pages than it may")
    else:
        assert certificate == "the last step"


@pytest.mark.parametrize("defect", SAME_BOUNDS, ids=[defect.name for defect in SAME_BOUNDS])
def test_resident_first_holds_in_the_same_bounds(defect, refuted):
    assert refuted[defect.name].good is None
    assert broken(explored(RESIDENT_FIRST, defect.bounds)) == set()


@OF_A_NAME
def test_where_another_policy_or_environment_is_right_it_keeps_the_property(defect, refuted):
    """It breaks nothing at all, but for the policy that goes without R4, which starves."""
    if defect not in SAME_BOUNDS:
        assert refuted[defect.name].good == (["oldest-finishes"] if defect.name == "no-fallback-on-resume" else [])


# ---- Those that are a policy alone, compiled --------------------------------------------------------


@pytest.mark.parametrize("defect", COMPILED, ids=[defect.name for defect in COMPILED])
def test_the_compiled_counterexample_is_as_long_and_really_breaks_the_property(defect):
    """An always-property: by its last step. An eventually-property: by every step of a loop that contains a pass."""
    policy = shelf.module_of(defect.name).POLICY
    finding = explored(policy, defect.bounds).findings[defect.breaks]
    assert finding.verdict is Verdict.VIOLATED
    steps = finding.trace.steps
    assert len(steps) - 1 == defect.steps
    facts = facts_along(policy, defect.bounds, finding.trace)
    breaks = [bits >> BIT[defect.breaks] & 1 for bits in facts]
    if finding.claim.kind is Kind.ALWAYS:
        assert finding.trace.loop_start is None
        assert breaks == [0] * (len(facts) - 1) + [1]
    else:
        start = finding.trace.loop_start
        assert all(breaks[start:])
        assert np.array_equal(steps[start].row, steps[-1].row)
        assert MoveKind.PASS in [Move.of_label(step.label).kind for step in steps[start + 1 :]]


# ---- Those that the Murphi text can have too ---------------------------------------------------------

needs_rumur = pytest.mark.skipif(shutil.which("rumur") is None, reason="rumur is not installed")
TEXT = rumur.TEXT.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", twins.EDITS)
def test_the_text_still_has_what_the_defect_replaces(name):
    assert twins.edited(TEXT, name) != TEXT


@needs_rumur
@pytest.mark.parametrize("name", twins.ON_EVERY_CHANGE)
def test_rumur_finds_the_same_failure_in_as_many_steps(name):
    assert twins.steps_by_rumur(name, twins.edited(TEXT, name)) == twins.DEFECTS[name].steps


@needs_rumur
def test_rumur_finds_none_in_the_text_as_it_is():
    assert twins.steps_by_rumur("fenced-victim", TEXT) is None


def test_an_edit_that_finds_nothing_to_replace_is_an_error():
    with pytest.raises(rumur.RumurError, match="0 times"):
        twins.edited(TEXT.replace("-- R4", "-- R5"), "bypass")


# ---- What only a worst case shows ---------------------------------------------------------------------


def test_whoever_admits_by_the_next_chunk_preempts_a_request_twice_and_who_admits_whole_prompts_once():
    """8 GPU pages, prompts to 6, outputs to 4, chunks of 2. ``resident-first`` admits by the next chunk as well."""
    defect = next(defect for defect in SHELF if defect.breaks in SENTENCES)
    counted = {}
    for policy in (shelf.module_of(defect.name).POLICY, POLICIES["vllm-fcfs"], RESIDENT_FIRST):
        (case,) = worst_cases(LifecycleModel(policy, defect.bounds), explored(policy, defect.bounds), [defect.breaks])
        counted[policy.name] = case.value
    assert counted == {"next-chunk-admission": 2, "vllm-fcfs": 1, "resident-first": 2}


# ---- The second route itself ------------------------------------------------------------------------


def test_compiled_code_cannot_have_its_functions_replaced():
    with pytest.raises(RuntimeError, match="NUMBA_DISABLE_JIT=1"), variants.in_place({"plan.apply": print}):
        pass


EDGES = [(b"a", b"b", 0), (b"b", b"a", 0), (b"c", b"d", 1), (b"d", b"c", 0), (b"d", b"d", 2), (b"e", b"e", 3)]
"""Marks 1 and 2: a and b have a cycle without either, c and d one with both, e one of a single step."""


def test_the_plain_search_takes_the_first_state_on_a_fair_cycle_and_the_shortest_fair_loop_there():
    depth = dict(zip([b"a", b"b", b"c", b"d", b"e"], range(5), strict=True))
    assert shelf.shortest_lasso(EDGES, depth, 0) == 0 + 2
    assert shelf.shortest_lasso(EDGES, depth, 3) == 2 + 3  # c, d, d, c
    assert shelf.shortest_lasso(EDGES[:4] + EDGES[5:], depth, 3) == 4 + 1
