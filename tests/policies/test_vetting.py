"""What a rule may not do is told before it is asked, with its line."""

from __future__ import annotations

import pytest

from stallproof.errors import PolicyFileError, RuleNotCompiled
from stallproof.policies import policy_named

from .files import GOOD, HEAD, rule

RULES = "MINE = Policy(name='x', summary='x', rules=RESIDENT_FIRST.rules._replace({}))\n"
FIVE = "requests, tiers, plan, requester, tokens"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(here, text, name="rule"):
    (here / "mine.py").write_text(text)
    with pytest.raises(PolicyFileError) as caught:
        policy_named(f"mine.py:{name}")
    return caught.value


BAD = [
    ("reads what counts over passes", rule("return plan.fired[0]"), "rule", "may not read plan.fired", "line 7", ""),
    ("reads the future", rule("x = 0", "return plan.drafts_accepted[0]"), "rule", "may not read plan.drafts_accepted",
     "line 8", ""),
    ("reads the future in a helper",
     "def helped(plan):\n    return plan.drafts_accepted[0]\n\n\n" + rule("return helped(plan)"), "rule",
     "may not read plan.drafts_accepted", "line 2, in helped", ""),
    ("writes", rule("requests.computed[0] = 0", "return NOBODY"), "rule", "writes to a table", "line 7", "let the"),
    ("writes to a tier", rule("tiers.free[0] += 1", "return NOBODY"), "rule", "writes to a table", "line 7", "let the"),
    ("answers nothing on a path", rule("if requester == 0:", "    return NOBODY"), "rule",
     "on some path it answers nothing", "line 6", "Return a row or NOBODY"),
    ("answers a fraction", rule("return 0.5"), "rule", "answers with float64", "line 6", "Return a row or NOBODY"),
    ("decides with a fraction", rule("return 0.5", decorator="decision"), "rule", "answers with float64", "line 6",
     "Return True or False"),
    ("three arguments", rule("return NOBODY", arguments="requests, tiers, plan"), "rule", "takes five arguments",
     "line 6", f"def rule({FIVE})"),
    ("no such column", rule("return requests.age[0]"), "rule", "requests has no age", "line 7", "computed"),
    ("a helper called wrongly", rule("return 1 if is_candidate(requests, plan, 0) else 0"), "rule",
     "missing a required argument: 'v'", "line 7", "It takes (requests, scheduled, requester, v)"),
    ("no such name", rule("return nowhere"), "rule", "nowhere", "line 7", "Define it"),
    ("no rule", HEAD + RULES.format("admits=3"), "MINE", "admits is 3, not a rule", "mine.py:MINE", "Put @decision"),
    ("a plain function", HEAD + "def f(a, b, c, d, e):\n    return True\n\n\n" + RULES.format("admits=f"), "MINE",
     "admits is a plain function", "line 5", "Put @decision"),
    ("a decision for a victim", HEAD + GOOD + "\n\n" + RULES.format("admits=newest"), "MINE",
     "admits asks for yes or no", "line 6, in newest", "Make it @decision"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "name", "what", "place", "remedy"), [row[1:] for row in BAD], ids=[r[0] for r in BAD])
def test_a_rule_that_may_not_be_asked_is_refused_with_line_and_remedy(here, text, name, what, place, remedy):
    error = refusal(here, text, name)
    assert not isinstance(error, RuleNotCompiled)
    assert what in error.what
    assert place in error.place
    assert remedy in error.remedy


NOT_COMPILABLE = [
    ("a string's method", rule("x = 'a b'.format()", "return len(x)"), "line 7", ""),
    ("a file", rule("open('x')", "return NOBODY"), "line 7", ""),
    (
        "a plain helper",
        "def helped():\n    return 1\n\n\n" + rule("return helped()"),
        "line 11",
        "Put @numba.njit above",
    ),
]


@pytest.mark.parametrize(
    ("text", "place", "remedy"), [r[1:] for r in NOT_COMPILABLE], ids=[r[0] for r in NOT_COMPILABLE]
)
def test_what_numba_cannot_compile_is_told_from_what_is_wrong(here, text, place, remedy):
    """Such a rule may run interpreted, so it is an error of its own kind."""
    error = refusal(here, text)
    assert isinstance(error, RuleNotCompiled)
    assert place in error.place
    assert remedy in error.remedy


def test_a_helper_that_is_compiled_may_be_called(here):
    helper = "import numba\n\n\n@numba.njit\ndef helped(a):\n    return a + 1\n\n\n"
    (here / "mine.py").write_text(helper + rule("return helped(-2) - NOBODY + NOBODY"))
    assert policy_named("mine.py:rule").name == "mine.py:rule"


def test_a_rule_may_make_a_list(here):
    body = ("order = [r for r in range(requester + 1, len(requests.phase))]", "return order[-1] if order else NOBODY")
    (here / "mine.py").write_text(rule(*body))
    assert policy_named("mine.py:rule").rules.victim_to_pause_for_decode.allocates


@pytest.mark.parametrize(("column", "reads"), [("output_left", True), ("computed", False)])
def test_a_policy_that_looks_at_the_output_left_is_known_to(here, column, reads):
    """An engine does not know it, so what such a policy claims is claimed for an oracle."""
    (here / "mine.py").write_text(rule(f"return NOBODY if requests.{column}[requester] > 1 else NOBODY"))
    assert policy_named("mine.py:rule").reads_output_left is reads
