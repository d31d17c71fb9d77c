"""``FILE.py:NAME`` is a policy, or one error says where and what to do."""

from __future__ import annotations

import pytest

from stallproof.bounds import Bounds
from stallproof.checking import check
from stallproof.errors import EXIT_USAGE, PolicyFileError
from stallproof.policies import policy_named
from stallproof.policies.loading import names_a_file
from stallproof.policies.resident_first import RESIDENT_FIRST

from .files import GOOD, HEAD, rule, stallproof

FILE = "mine.py"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Tests write their files into the working directory, as people do."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text, name=FILE):
    with open(name, "w") as file:
        file.write(text)


def refusal(place):
    with pytest.raises(PolicyFileError) as caught:
        policy_named(place)
    return caught.value


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("mine.py:rule", True), ("mine.py", True), ("a/b.py:C", True), ("resident-first", False), ("nonsense", False)],
)
def test_a_place_in_a_file_is_told_from_a_name(name, is_one):
    assert names_a_file(name) is is_one


def test_a_victim_rule_takes_its_place_in_resident_first():
    write(HEAD + GOOD)
    policy = policy_named("mine.py:newest")
    assert policy.name == "mine.py:newest"
    assert policy.summary == "resident-first with another victim: The newest candidate"
    changed = {q for q, r in policy.rules._asdict().items() if r is not getattr(RESIDENT_FIRST.rules, q)}
    assert changed == {"victim_to_pause_for_decode", "victim_to_pause_for_prefill"}
    assert policy.unclaimed == RESIDENT_FIRST.unclaimed


def test_a_decision_takes_the_place_of_admission():
    write(rule("return requester == 0", decorator="decision"))
    policy = policy_named("mine.py:rule")
    changed = {q for q, r in policy.rules._asdict().items() if r is not getattr(RESIDENT_FIRST.rules, q)}
    assert changed == {"admits"}


def test_a_whole_policy_is_called_what_was_asked_for():
    write(HEAD + "MINE = RESIDENT_FIRST.changed('other-name', 'the same again')\n")
    policy = policy_named("mine.py:MINE")
    assert (policy.name, policy.summary) == ("mine.py:MINE", "the same again")


def test_rules_make_a_policy():
    write(HEAD + "MINE = RESIDENT_FIRST.rules\n")
    assert policy_named("mine.py:MINE").rules == RESIDENT_FIRST.rules


def test_the_newest_candidate_holds_as_resident_first_does():
    """It is the rule that resident-first has, so the two reach as many states."""
    write(HEAD + GOOD)
    bounds = Bounds(live=2, gpu_pages=4, host_pages=0, max_prompt=3, max_output=3)
    mine, shipped = check("mine.py:newest", bounds), check("resident-first", bounds)
    assert (mine.verdict, mine.states, mine.transitions) == (shipped.verdict, shipped.states, shipped.transitions)


def test_a_file_may_import_its_neighbours():
    write(GOOD.replace("@victim", f"{HEAD}\n@victim"), "neighbour_of_mine.py")
    write("from neighbour_of_mine import newest\n")
    assert policy_named("mine.py:newest").name == "mine.py:newest"


def test_a_file_that_changed_is_read_again():
    write(rule("return NOBODY"))
    policy_named("mine.py:rule")
    write(rule("'''Somebody else.'''", "return NOBODY"))
    assert policy_named("mine.py:rule").summary.endswith("Somebody else")


BAD = [
    ("no file", None, "mine.py:rule", "there is no such file", "mine.py", "FILE.py:NAME"),
    ("no name", HEAD + GOOD, "mine.py", "the file alone names no policy", "mine.py", "mine.py:newest"),
    ("empty name", HEAD + GOOD, "mine.py:", "the file alone names no policy", "mine.py", "mine.py:newest"),
    ("other name", HEAD + GOOD, "mine.py:oldest", "there is no oldest in it", "mine.py", "of: mine.py:newest."),
    ("nothing there", "x = 1\n", "mine.py:rule", "there is no rule in it", "mine.py", "Define a rule"),
    ("no Python", "def rule(:\n", "mine.py:rule", "it is no Python", "mine.py, line 1", "Mend it"),
    ("raises", "\n1 / 0\n", "mine.py:rule", "ZeroDivisionError: division by zero", "mine.py, line 2", "Mend it"),
    ("leaves", "import sys\nsys.exit(0)\n", "mine.py:rule", "raised SystemExit", "mine.py, line 2", "Mend it"),
    ("neighbour missing", "import no_such_neighbour\n", "mine.py:rule", "ModuleNotFoundError", "mine.py, line 1", ""),
    ("a number", "rule = 3\n", "mine.py:rule", "rule is neither a rule nor a policy", "mine.py:rule", "Put @victim"),
    ("undecorated", GOOD.replace("@victim\n", ""), "mine.py:newest", "neither a rule nor a policy", "mine.py, line 1",
     "Put @victim above"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "asked", "what", "place", "remedy"), [row[1:] for row in BAD], ids=[r[0] for r in BAD]
)
def test_what_is_no_policy_is_refused_with_place_and_remedy(text, asked, what, place, remedy):
    if text is not None:
        write(text)
    error = refusal(asked)
    assert what in error.what
    assert place in error.place
    assert remedy in error.remedy


def test_bytes_that_are_no_text_are_refused():
    with open(FILE, "wb") as file:
        file.write(b"\x00\xff\xfe")
    assert "mine.py" in refusal("mine.py:rule").place


def test_the_program_refuses_in_one_line_with_exit_code_2(here):
    write(HEAD + GOOD)
    code, output, error = stallproof("check", "--policy", "mine.py:oldest", cwd=here)
    assert (code, output) == (EXIT_USAGE, "")
    assert error.count("\n") == 1
    assert "mine.py:newest" in error
