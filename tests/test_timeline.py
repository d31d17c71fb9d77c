"""Timelines as a reviewer reads them. ``STALLPROOF_REWRITE=1`` writes them anew: accept only what you understand.

Each scenario is one of the four findings of ``rules.md``, in our reading of the published rules. The
comment at its head was worked out by hand from the rules, step by step, before the timeline was accepted.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from stallproof.bounds import Bounds
from stallproof.checking import check
from stallproof.lifecycle import Phase
from stallproof.report.timeline import count, pages_bar, print_run, print_timeline
from stallproof.report.verdicts import bounds_in_words
from stallproof.traces import RequestState

SCENARIOS = Path(__file__).parent / "scenarios"

FINDINGS = {
    "useless_victim": (
        "victim-makes-room",
        Bounds(live=3, gpu_pages=3, host_pages=1, chunk_tokens=1, max_prompt=1, max_output=2),
    ),
    "livelock": ("no-livelock", Bounds(gpu_pages=6, host_pages=1, max_output=4)),
    "dead_end": ("no-dead-end", Bounds(gpu_pages=4, host_pages=0)),
    "starvation": ("oldest-finishes", Bounds(live=3, gpu_pages=3, host_pages=0, max_prompt=1, max_output=2)),
}


def printed(trace) -> str:
    text = io.StringIO()
    print_timeline([trace], Console(file=text, width=110, highlight=False))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def trace_in(finding: str):
    name, bounds = FINDINGS[finding]
    result = check("helix-published", bounds, threads=1)
    return next(p.trace for p in result.properties if p.name == name)


@pytest.mark.parametrize("finding", FINDINGS)
def test_the_timeline_is_the_one_that_was_reviewed(finding):
    path = SCENARIOS / f"{finding}.txt"
    comments = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert comments
    trace = trace_in(finding)
    head = f"helix-published, {bounds_in_words(trace.bounds)}\n\n"
    text = "\n".join(comments) + "\n\n" + head + printed(trace)
    if os.environ.get("STALLPROOF_REWRITE"):
        path.write_text(text)
    assert path.read_text() == text


def test_every_scenario_has_its_finding():
    assert {path.stem for path in SCENARIOS.glob("*.txt")} == set(FINDINGS)


@pytest.mark.parametrize("finding", FINDINGS)
def test_the_bars_show_as_many_pages_as_the_requests_have(finding):
    """A second reading of the same text: digits and dots fill the tier, and no page is anybody's twice."""
    trace = trace_in(finding)
    for moment in trace.moments:
        for field, capacity in (("gpu_pages", trace.bounds.gpu_pages), ("host_pages", trace.bounds.host_pages)):
            bar = pages_bar(moment.requests, field, capacity)
            assert len(bar) == capacity
            for r in moment.requests:
                assert bar.count(str(r.number)) == getattr(r, field)


def request(number: int, gpu_pages: int) -> RequestState:
    return RequestState(number, Phase.ACTIVE, True, 1, 1, 1, gpu_pages, 0, 0, 0)


def test_a_bar_names_the_owners_in_order_of_arrival():
    assert pages_bar((request(1, 2), request(2, 1)), "gpu_pages", 5) == "112.."
    assert pages_bar((), "gpu_pages", 3) == "..."
    assert pages_bar((), "host_pages", 0) == ""


def test_a_bar_of_a_large_tier_is_in_proportion_and_says_the_numbers():
    assert pages_bar((request(1, 50), request(2, 50)), "gpu_pages", 200) == "########........ 100/200"
    assert pages_bar((request(1, 200),), "gpu_pages", 200) == "################ 200/200"
    assert pages_bar((), "gpu_pages", 17) == "................ 0/17"


def test_a_bar_of_the_tenth_request_shows_its_last_digit():
    assert pages_bar((request(9, 1), request(10, 2)), "gpu_pages", 4) == "900."


def test_one_page_two_pages():
    assert [count(n, "page") for n in (0, 1, 2)] == ["0 pages", "1 page", "2 pages"]
    assert [count(n, "pass") for n in (0, 1, 2)] == ["0 passes", "1 pass", "2 passes"]


def test_a_part_of_a_run_keeps_its_numbers_and_tells_of_the_loop_only_at_its_end():
    trace = trace_in("dead_end")
    text = io.StringIO()
    print_run(trace, Console(file=text, width=110, highlight=False), 1, 3)
    lines = text.getvalue().splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["2", "3"]
    text = io.StringIO()
    print_run(trace, Console(file=text, width=110, highlight=False), 3)
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    assert "repeat for ever" in lines[1]
    assert lines[2].startswith("   4  pass: nothing happens")
    assert lines[-1] == "      R2 active, decode, 2 of 3 tokens computed"
