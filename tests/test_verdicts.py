"""The printed result of a check."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from stallproof.bounds import Bounds
from stallproof.checking import check
from stallproof.policies import policy_named
from stallproof.report.verdicts import bounds_in_words, never_happened, print_check, verdict_line

DEAD_END = Bounds(gpu_pages=4, host_pages=0)
IDLE = Bounds(live=2, gpu_pages=1, host_pages=1, page_tokens=2, chunk_tokens=1, max_prompt=1, max_output=2)
"""Who has the one page is served to the end: nobody is ever given up."""
ONE_TOKEN = Bounds(live=3, gpu_pages=2, host_pages=1, max_prompt=1, max_output=1)


def printed(result, **options) -> list[str]:
    text = io.StringIO()
    print_check(result, Console(file=text, width=200, highlight=False), **options)
    return [line.rstrip() for line in text.getvalue().splitlines()]


def last_words(lines: list[str]) -> str:
    """The verdict line, which may have been wrapped."""
    return " ".join(lines[-2:])


def row_of(lines: list[str], name: str) -> str:
    return next(line for line in lines if line.startswith(name + " "))


def test_bounds_are_told_in_one_line():
    assert bounds_in_words(Bounds()) == (
        "3 live requests, 5 GPU pages, 2 host pages, 1 token a page, chunks of 2, prompts to 3, outputs to 3"
    )
    assert bounds_in_words(Bounds(1, 1, 0, 2, 1, 1, 1, cancel=False, early_stop=False)) == (
        "1 live request, 1 GPU page, no host tier, 2 tokens a page, chunks of 1, prompts to 1, outputs to 1, "
        "no cancellation, no early stop"
    )
    rich = bounds_in_words(
        Bounds(lookahead=1, state_pages=2, priorities=2, pass_requests=1, pass_tokens=3, copies=True)
    )
    assert rich.endswith(
        "1 draft a decode, 2 pages of recurrent state, 2 priorities, at most 1 request a pass, "
        "at most 3 tokens a pass, copies take time"
    )


def test_a_verdict_that_holds_says_what_it_is_about():
    result = check(threads=1)
    lines = printed(result)
    assert lines[1] == bounds_in_words(Bounds())
    assert lines[-1].startswith(
        "resident-first holds: every claim is true of every run within the bounds. "
        f"{result.states:,} states, {result.transitions:,} transitions, depth {result.depth}, "
    )
    assert row_of(lines, "no-dead-end").split()[1] == "holds"
    assert row_of(lines, "sometimes-suspends").split()[1] == "happens"
    assert "violated" not in "\n".join(lines)
    line = next(line for line in lines if line.startswith("Worst case until all live requests are done"))
    assert f": {result.worst_case['passes_to_drain']} passes." in line


def test_a_violated_verdict_names_what_failed_and_shows_one_timeline_a_run():
    """Dead end and starvation have the same shortest run here, so it is shown once, under both names."""
    lines = printed(check("helix-published", DEAD_END, threads=1))
    assert lines[-1].startswith("helix-published violated: failed: no-dead-end, oldest-finishes. ")
    assert row_of(lines, "no-dead-end").split()[1:3] == ["violated", "4"]
    assert not any(line.startswith("sometimes-suspends") for line in lines)
    said = " ".join(lines)
    assert "sometimes-suspends" in said[said.index("Not applicable within these bounds: ") :]
    assert lines.count("no-dead-end, oldest-finishes: 4 steps") == 1
    assert sum(line.lstrip().startswith("step ") for line in lines) == 1
    line = next(line for line in lines if line.startswith("Worst case until all live requests are done"))
    assert "some never end" in line


def test_timelines_can_be_left_out():
    lines = printed(check("helix-published", DEAD_END, threads=1), timelines=False)
    assert not any("steps" in line for line in lines)
    assert lines[-1].startswith("helix-published violated")


def test_a_search_that_was_cut_off_says_that_the_rest_is_unknown():
    result = check(max_states=100, threads=1)
    line = verdict_line(result).plain
    assert line.startswith("resident-first bound reached: the search was cut off; what it saw breaks no claim, ")
    assert "the rest is unknown" in line
    assert "holds" not in line


def test_a_failure_that_is_not_claimed_is_told_as_such():
    bounds = Bounds(live=3, gpu_pages=3, host_pages=1, chunk_tokens=1, max_prompt=1, max_output=3)
    result = check("helix-published", bounds, threads=1)
    lines = printed(result)
    assert "violated (not claimed)" in row_of(lines, "victim-makes-room")
    failed = [p.name for p in result.failures if p.claimed]
    assert all(name not in lines[-1] for name in ("victim-makes-room", "only-when-needed"))
    assert all(name in lines[-1] for name in failed)


def test_what_never_happens_comes_with_a_remedy():
    result = check(bounds=IDLE, threads=1)
    lines = printed(result)
    assert "never happens" in row_of(lines, "sometimes-suspends")
    remedy = never_happened(next(p for p in result.failures if p.name == "sometimes-suspends"))
    assert remedy in " ".join(lines)  # it may need two lines
    assert remedy.endswith("or leave the claim out with --unclaimed sometimes-suspends.")
    unclaimed = frozenset(p.name for p in result.failures)
    lenient = check(replace(policy_named("resident-first"), unclaimed=unclaimed), IDLE, threads=1)
    assert "resident-first violated: failed: sometimes-suspends, " in last_words(lines)
    assert "resident-first holds: " in last_words(printed(lenient))


def test_rules_that_never_fired_are_named():
    line = next(
        line for line in printed(check(bounds=ONE_TOKEN, threads=1)) if line.startswith("Rules that never fired: ")
    )
    assert "H1 decode fits" in line  # nobody ever decodes: one token, and done
    assert "chunk fits" not in line


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(width):
    text = io.StringIO()
    print_check(check("helix-published", DEAD_END, threads=1), Console(file=text, width=width, highlight=False))
    assert max(len(line) for line in text.getvalue().splitlines()) <= width
