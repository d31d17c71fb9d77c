"""Guard mutation: the record is of the shipped source, every mutant is killed or has a reason, and kills repeat."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from model_checking.mutants.operators import OPERATORS, mutants_of
from model_checking.mutants.record import recorded
from model_checking.mutants.running import BOUNDS, all_mutants
from model_checking.mutants.telling import reasons
from stallproof.compiled import interpreted_environment

ROOT = Path(__file__).resolve().parent.parent
UNNOTICED = {"nothing", "graph"}
REASONS = [reason for of in reasons().values() for reason in of]

TOY = '''
def victim(rows, requester):
    """The newest row behind the requester that has pages."""
    for v in range(rows - 1, requester, -1):
        if pages[v] > 0 and not given_up[v]:
            return v
    return NOBODY
'''

BY_HAND = {
    "order": ["for v in reversed(range(rows - 1, requester, -1)):"],
    "off-by-one": [
        "for v in range(rows - 1 + 1, requester, -1):",
        "for v in range(rows - 1 + 1, requester, -1):",  # the first argument, and the difference in it
    ],
    "always": ["if True:"],
    "never": ["if False:"],
    "drop": ["if not given_up[v]:", "if pages[v] > 0:"],
    "compare": ["if pages[v] >= 0 and (not given_up[v]):"],
}


@pytest.mark.parametrize("operator", BY_HAND)
def test_an_operator_makes_the_changes_written_out_by_hand(operator):
    shipped = ast.unparse(ast.parse(TOY)).splitlines()
    made = []
    for mutant in mutants_of(TOY, "toy"):
        if mutant.name.split(": ")[1] == operator:
            lines = ast.unparse(mutant.tree).splitlines()
            (changed,) = [line.strip() for line, before in zip(lines, shipped, strict=True) if line != before]
            made.append(changed)
    assert sorted(made) == sorted(BY_HAND[operator])


def test_the_record_is_of_the_shipped_source():
    """Each mutant by a name of its own. Mend with ``make mutants``: it judges only what is new."""
    assert sorted(recorded()) == sorted(mutant.name for mutant in all_mutants())


def test_the_operators_are_all_that_are_told():
    assert {name.split(": ")[1] for name in recorded()} == set(OPERATORS)


def test_every_mutant_is_killed_or_has_a_reason():
    survivors = {name for name, outcome in recorded().items() if outcome.by in UNNOTICED}
    explained = [name for reason in REASONS for name in reason["mutants"]]
    assert len(explained) == len(set(explained))
    assert set(explained) == survivors


def test_only_a_mutant_with_another_graph_is_called_different():
    different = {name for reason in reasons()["different"] for name in reason["mutants"]}
    assert different == {name for name, outcome in recorded().items() if outcome.by == "graph"}


def test_every_reason_says_something():
    assert [reason["mutants"] for reason in REASONS if len(reason["because"]) < 20] == []


def test_a_kill_repeats():
    """Of every killer that needs no more than the first bound, the first mutant of the record, judged anew."""
    chosen = {}
    for name, outcome in recorded().items():
        if outcome.bounds == BOUNDS[0] and outcome.by != "counts":
            chosen.setdefault(outcome.by, (name, list(outcome)))
    assert len(chosen) > 5
    code = (
        "import json, sys\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from model_checking.mutants.__main__ import judged\n"
        "from model_checking.mutants.running import all_mutants\n"
        "names = set(sys.argv[1:])\n"
        "print(json.dumps({m.name: judged(m, {}) for m in all_mutants() if m.name in names}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *(name for name, _ in chosen.values())],
        env=interpreted_environment(), cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == dict(chosen.values())
