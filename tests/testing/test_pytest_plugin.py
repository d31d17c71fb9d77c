"""The pytest plug-in, in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.fixture
def tests_say(tmp_path):
    """Runs a file of tests in a process of its own. Returns what pytest printed, and how many passed and failed."""

    def run(text):
        (tmp_path / "test_it.py").write_text(f"import pytest\n\n{text}")
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--strict-markers", "-rA", "test_it.py"]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ended.stderr == ""
        return ended.stdout

    return run


def test_a_marked_test_runs_if_the_policy_keeps_what_it_claims(tests_say):
    """One live request with one page: the states can be counted by hand, and no claim is broken."""
    said = tests_say(
        "ONE = dict(live=1, gpu_pages=1, host_pages=0, max_prompt=1, max_output=1)\n"
        "@pytest.mark.stallproof(policy='resident-first', **ONE)\n"
        "def test_one(stallproof):\n"
        "    assert (stallproof.verdict.value, stallproof.states) == ('holds', 2)\n"  # nobody, or one that waits
    )
    assert "1 passed" in said


def test_a_violation_fails_the_test_with_its_timeline_and_the_body_does_not_run(tests_say):
    said = tests_say(
        "@pytest.mark.stallproof('helix-published', gpu_pages=4, host_pages=0)\n"
        "def test_published():\n"
        "    print('the body ran')\n"
    )
    assert "1 failed" in said
    assert "no-dead-end" in said
    assert "step" in said
    assert "GPU pages" in said
    assert "the body ran" not in said


def test_a_search_that_was_cut_off_fails_the_test(tests_say):
    said = tests_say("@pytest.mark.stallproof(max_states=10)\ndef test_cut_off():\n    pass\n")
    assert "1 failed" in said
    assert "bound reached" in said


@pytest.mark.parametrize(
    ("marker", "words"),
    [
        ("(gpu_page=4)", "there is no 'gpu_page'. Its arguments are policy, max_states, live, gpu_pages"),
        ("('resident-first', 3)", "only the policy has no name"),
        ("(policy='nobody')", "nobody"),
        ("(live=0)", "0 is out of range"),
    ],
)
def test_a_wrong_marker_says_what_is_right(tests_say, marker, words):
    said = tests_say(f"@pytest.mark.stallproof{marker}\ndef test_it():\n    pass\n")
    assert "1 failed" in said
    assert words in said
    assert "Traceback" not in said


def test_the_fixture_without_the_marker_says_so(tests_say):
    said = tests_say("def test_it(stallproof):\n    pass\n")
    assert "1 error" in said
    assert "needs @pytest.mark.stallproof" in said


def test_tests_without_the_marker_load_nothing(tests_say):
    said = tests_say(
        "def test_it():\n    import sys\n    assert not {'numba', 'hypothesis', 'rich'} & sys.modules.keys()\n"
    )
    assert "1 passed" in said
