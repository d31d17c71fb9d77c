"""Interpreted, a rule's mistake is named with its line; the tables are read-only for it."""

from __future__ import annotations

import pytest

from stallproof.errors import EXIT_VIOLATED

from .files import rule, stallproof

SMALL = ("--live", 2, "--gpu-pages", 4, "--host-pages", 0)


def run(here, text, *, interpreted=True):
    (here / "mine.py").write_text(text)
    return stallproof("check", "--policy", "mine.py:rule", *SMALL, interpreted=interpreted, cwd=here)


BAD = [
    ("raises", rule("return [1][requester + 5]"), "it raised IndexError", "line 7"),
    ("raises in a helper", "def helped():\n    raise ValueError('no')\n\n\n" + rule("return helped()"),
     "it raised ValueError: no", "line 2"),
    ("writes", rule("requests.computed[0] = 0", "return NOBODY"), "read-only", "line 7"),
    ("answers nothing", rule("return None"), "neither a row nor NOBODY", "line 6"),
    ("answers with a word", rule("return 'R1'"), "it answered 'R1'", "line 6"),
    ("answers outside", rule("return 7"), "the rows are 0 to 1", "line 6"),
    ("decides with a word", rule("return 'yes'", decorator="decision"), "neither yes nor no", "line 6"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "what", "place"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_rule_that_goes_wrong_is_named_with_its_line(tmp_path, text, what, place):
    """No pass comes of it, so the claim that it broke is that of the transitions."""
    code, output, error = run(tmp_path, text)
    assert code == EXIT_VIOLATED, error
    told = " ".join(output.split())
    assert what in told
    assert f"mine.py, {place}" in told
    assert "violated: failed: legal-transition" in told


def test_a_victim_that_is_no_candidate_is_a_violation_told_beside_the_trace(tmp_path):
    """The requester itself: the pass obeys, the claims fail, and the rule is named."""
    code, output, error = run(tmp_path, rule("return requester"))
    assert code == EXIT_VIOLATED, error
    told = " ".join(output.split())
    assert "it answered R1, no candidate: it is the requester itself" in told
    assert "mine.py, line 6, in rule: asked victim_to_pause_for_decode for R1" in told


def test_what_cannot_be_compiled_runs_interpreted_with_a_warning(tmp_path):
    code, output, error = run(tmp_path, rule("x = 'a b'.format()", "return NOBODY"), interpreted=False)
    assert "warning" in error
    assert "runs interpreted" in error
    assert "mine.py, line 7" in error
    assert code == EXIT_VIOLATED  # nobody is ever given up, so it comes to a dead end
    assert "no-dead-end" in output
