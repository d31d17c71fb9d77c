"""The guides run: every block, and what it shows comes out."""

from __future__ import annotations

import os

import pytest
from conftest import ROOT
from documents import blocks_of, commands_of, difference, run_guide

GUIDES = ("write-a-policy", "review-a-policy-change", "fuzz-your-scheduler", "watch-production")


@pytest.mark.parametrize("name", GUIDES)
def test_every_block_of_the_guide_runs_and_shows_what_comes_out(name, tmp_path):
    path = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "COLUMNS": "120", "PYTHONPATH": path}
    assert run_guide(ROOT / "docs" / f"{name}.md", tmp_path, environment) > 3


@pytest.mark.parametrize(
    ("shown", "came", "missing"),
    [
        ("a\nb\n", "a\nb\n", ""),
        ("a\n...\nd\n", "a\nb\nc\nd\n", ""),
        ("...\nc d\n...\n", "a\nc\nd\ne\n", ""),
        ("b\n", "a\nb\n", "b"),
        ("a\n...\n", "b\na\n", "a"),
        ("...\nb\n", "b\na\n", "b"),
        ("...\nb\n...\na\n...\n", "a\nb\n", "a"),
        ("...\nx\n...\n", "a\n", "x"),
    ],
)
def test_a_difference_is_what_was_shown_and_did_not_come_in_this_order(shown, came, missing):
    assert difference(shown, came) == missing


def test_blocks_and_commands_are_found_and_others_left_alone():
    text = "```python\n# a.py\nx = 1\n```\n```text\nno\n```\n```console\n$ one 'two three'\nout\n$ four\n```\n"
    (first, file), (second, console) = blocks_of(text)
    assert (first, file) == ("python", "# a.py\nx = 1\n")
    assert second == "console"
    assert [(command.words, command.shown) for command in commands_of(console)] == [
        (["one", "two three"], "out\n"),
        (["four"], ""),
    ]
