"""A second count of worst cases: it accepts what is so, and refuses what was tampered with."""

from __future__ import annotations

import copy

import pytest

from stallproof.bounds import Bounds
from stallproof.certifier import CertificationError
from stallproof.checking import check
from stallproof.recounting import recount_all
from stallproof.worst_cases import SENTENCES

GPU_ONLY = Bounds(gpu_pages=4, host_pages=0)


@pytest.fixture(scope="module")
def cases():
    """Bounded and unbounded worst cases, as JSON, by policy and name."""
    return {
        (policy, case.name): case.as_json()
        for policy in ("resident-first", "helix-published")
        for bounds in (GPU_ONLY, Bounds())
        for case in check(policy, bounds, threads=1, all_worst_cases=True).worst_cases
    }


def test_every_worst_case_is_certified(cases):
    certificates = recount_all(list(cases.values()))
    assert [certificate.property for certificate in certificates] == [name for _, name in cases]
    assert {name for _, name in cases} == set(SENTENCES)


def one_more(case):
    case["value"][0] += case["value"][1]


def no_bound(case):
    case["value"] = None


def somebody_else(case):
    case["request"] = 1


def counted_earlier(case):
    case["counted_from"] -= 1


def another_state(case):
    case["steps"][-2]["after"][0]["tokens"] += 1


def the_last_step_missing(case):
    del case["steps"][-1]


def another_name(case):
    case["worst_case"] = "passes_to_drain"


@pytest.mark.parametrize(
    ("policy", "name", "tamper", "complaint"),
    [
        ("resident-first", "passes_to_drain", one_more, "the run shows 12, not 13"),
        ("resident-first", "passes_to_drain", no_bound, "the count does not grow for ever"),
        ("resident-first", "passes_to_drain", counted_earlier, "draining is passes alone"),
        ("resident-first", "passes_to_drain", the_last_step_missing, "somebody is left"),
        ("resident-first", "passes_to_drain", another_state, "recorded"),
        ("resident-first", "passes_until_oldest_finishes", somebody_else, "R1 is gone before the end"),
        ("resident-first", "passes_of_one_request", the_last_step_missing, "it does not finish"),
        ("resident-first", "preemptions_of_one_request", one_more, "the run shows 3, not 4"),
        ("resident-first", "preemptions_of_one_request", somebody_else, "R1"),
        ("resident-first", "recomputed_per_token", one_more, "the run shows 5/6, not 11/6"),
        ("resident-first", "recomputed_per_token", no_bound, "tokens are generated round the loop"),
        ("resident-first", "recomputed_per_token", the_last_step_missing, "the loop does not close"),
        ("helix-published", "passes_until_oldest_finishes", the_last_step_missing, "the loop does not close"),
        ("helix-published", "passes_until_oldest_finishes", another_name, "draining is passes alone"),
        ("helix-published", "passes_until_oldest_finishes", counted_earlier, "what recurs is what is counted"),
    ],
)
def test_what_was_tampered_with_is_refused(cases, policy, name, tamper, complaint):
    case = copy.deepcopy(cases[policy, name])
    tamper(case)
    with pytest.raises(CertificationError, match=complaint):
        recount_all([case])
