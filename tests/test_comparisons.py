"""The reports: a comparison and the table of policies, in a terminal and as Markdown; and worst cases."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from stallproof.bounds import Bounds
from stallproof.checking import check
from stallproof.comparing import Throughput, compare, survey
from stallproof.policies import HELIX_PUBLISHED, POLICIES, RESIDENT_FIRST
from stallproof.properties import PROPERTIES
from stallproof.report.comparisons import Page, page_for, print_comparison, print_policies, shown, throughput_rows
from stallproof.report.worst_cases import print_worst_cases, value
from stallproof.worst_cases import SENTENCES

DEAD_END = Bounds(gpu_pages=4, host_pages=0)


def printed(write, markdown=False) -> list[str]:
    text = io.StringIO()
    write(page_for(Console(file=text, width=120, highlight=False), markdown))
    return [line.rstrip() for line in text.getvalue().splitlines()]


@pytest.fixture(scope="module")
def comparison():
    return compare(RESIDENT_FIRST, HELIX_PUBLISHED, DEAD_END, threads=1)


@pytest.fixture(scope="module")
def results():
    return list(survey(POLICIES.values()))


def test_a_comparison_says_verdicts_claims_sizes_and_where_the_plans_part(comparison):
    lines = printed(lambda page: print_comparison(comparison, page))
    assert "verdict  holds           violated" in lines
    assert "no-dead-end      holds           violated, 4 steps" in lines
    failing = {"no-dead-end", "oldest-finishes"}  # of the dead end, which is also a starvation
    assert f"The other {len(PROPERTIES) - len(failing)} hold in both, or do not apply." in lines
    assert any(
        re.fullmatch(r"passes_to_drain +11 +unbounded +Passes until nobody is left, draining\.", x) for x in lines
    )
    assert any(re.fullmatch(r"states +329 +346", line) for line in lines)
    both = [line for line in lines if line.startswith("step  what happens")]
    assert len(both) == 3
    assert "Both go the same way for 3 steps:" in lines
    assert "      -- from here on the steps repeat for ever --" in lines


def test_the_steps_after_the_difference_go_on_counting(comparison):
    lines = printed(lambda page: print_comparison(comparison, page))
    numbers = [int(match[1]) for line in lines if (match := re.match(r" +(\d+)  \S", line))]
    assert numbers == [1, 2, 3, 4, 5, 6, 7, 8, 9, 4]


def test_markdown_has_whole_tables_and_fenced_timelines(comparison):
    """Each table: a header, a rule with as many cells, rows with as many cells; nothing is cut or wrapped."""
    lines = printed(lambda page: print_comparison(comparison, page), markdown=True)
    assert lines[0] == "### resident-first and helix-published"
    assert "\N{HORIZONTAL ELLIPSIS}" not in "\n".join(lines)
    assert lines.count("```") == 2 * 3
    fenced = False
    tables = 0
    for before, line in zip(["", *lines], lines, strict=False):
        if line == "```":
            fenced = not fenced
        elif not fenced and line.startswith("|"):
            if not before.startswith("|"):
                tables += 1
                cells = line.count("|")
            assert line.endswith("|")
            assert line.count("|") == cells
            if re.fullmatch(r"[|:-]+", line):
                assert before.startswith("|")
        elif not fenced:
            assert line == "" or line.startswith("### ") or line.endswith((".", ":"))
    assert tables == 4
    assert not fenced


def test_without_a_difference_that_is_said():
    same = compare(RESIDENT_FIRST, RESIDENT_FIRST, Bounds(live=1), threads=1)
    assert "None: in every state both plans are the same." in printed(lambda page: print_comparison(same, page))
    cut = compare(RESIDENT_FIRST, RESIDENT_FIRST, Bounds(), max_states=50, threads=1)
    lines = printed(lambda page: print_comparison(cut, page))
    assert "None: in every state that was seen both plans are the same." in lines
    assert any(re.match(r"passes_to_drain +unknown +unknown", line) for line in lines)


def test_a_side_that_stalled_shows_why_and_no_numbers():
    rows = throughput_rows(
        (Throughput(finished=1200, mean_passes=3.25), Throughput(stall="stalled at pass 2: nothing"))
    )
    assert rows[0] == ("stalled", "no", "stalled at pass 2: nothing")
    assert rows[1] == ("requests finished", "1,200", "-")
    assert {row[2] for row in rows[1:]} == {"-"}
    assert throughput_rows((Throughput(finished=1),))[0][0] == "requests finished"


def test_whole_numbers_are_whole_and_others_have_one_digit():
    assert [shown(x) for x in (None, 0, 1234567, 0.0, 1234.56)] == ["-", "0", "1,234,567", "0.0", "1,234.6"]


def test_the_table_of_policies_has_a_row_a_policy_at_each_of_the_bounds(results):
    lines = printed(lambda page: print_policies(results, page))
    for policy in POLICIES.values():
        assert len([line for line in lines if line.startswith(policy.name)]) == 3
        assert any(line.startswith(policy.name) and line.endswith(policy.summary) for line in lines)
    row = next(line for line in lines if re.match("helix-published +violated +no-dead-end 4", line))
    assert row.split() == ["helix-published", "violated", "no-dead-end", "4", *["unbounded"] * 2, "2", "2"]
    assert any(line.strip() == "oldest-finishes 4" for line in lines)
    assert any("(victim-makes-room 5)" in line for line in lines)


def test_the_table_of_policies_as_markdown_keeps_a_policy_on_one_line(results):
    lines = printed(lambda page: print_policies(results, page), markdown=True)
    row = next(line for line in lines if line.startswith("| helix-published ") and "no-dead-end 4" in line)
    assert row.count("|") == 8
    assert "no-dead-end 4, oldest-finishes 4" in row


def test_twelve_policies_fit_the_width_of_a_pipe(results):
    """The longest names of properties that fail stand one a line; no name is cut."""
    lines = printed(lambda page: print_policies(results * 6, page))
    assert max(len(line) for line in lines) <= 120
    assert "\N{HORIZONTAL ELLIPSIS}" not in "\n".join(lines)


def test_worst_cases_are_listed_and_each_run_is_shown_once():
    cases = check("helix-published", DEAD_END, threads=1, all_worst_cases=True).worst_cases
    lines = printed(lambda page: print_worst_cases(cases, page.console))
    for name in SENTENCES:
        assert any(line.startswith(name) for line in lines)
    at = lines.index("passes_to_drain: unbounded, each time round the loop")
    assert lines[at + 1] == "passes_until_oldest_finishes: unbounded, for R1 each time round the loop"
    assert not any(line.startswith("suspensions_of_one_request: ") for line in lines)  # 0: nothing to show
    runs = {(case.moves, case.loop_start) for case in cases if case.value != 0}
    assert len([line for line in lines if line.startswith("step  what happens")]) == len(runs)


def test_a_worst_case_nobody_computed_is_unknown():
    assert value(None) == "unknown"


def test_a_page_is_in_one_form_or_the_other():
    text = io.StringIO()
    console = Console(file=text, width=40, highlight=False)
    Page(console, markdown=False).table(("a", "b"), [("1", "2")], justify="right")
    page_for(console, markdown=True).table(("a", "b"), [("1", "2")], justify="right")
    assert text.getvalue() == "a  b\n1  2\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
