"""The matrix of the mutants, and the reasons of those that nothing noticed, as tables of a page."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from model_checking.markdown import table
from model_checking.mutants.operators import OPERATORS
from model_checking.mutants.running import Outcome

SURVIVORS = Path(__file__).parent / "survivors.toml"
KINDS = ("equivalent", "different", "unreached")
WORDS = {
    "counts": "no claim fails, but Rumur counts other states or transitions",
    "does not end": "the pass does not end",
    "raises": "the pass stops with an error",
    "graph": "survives: only facts along the graph differ",
    "nothing": "survives: no difference",
}


def reasons() -> dict[str, list[dict[str, Any]]]:
    """By kind, why mutants survive: each with the names of its mutants."""
    told = tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))
    return {kind: told[kind] for kind in KINDS}


def operators() -> str:
    """What each operator changes."""
    return table(["operator", "what it changes"], [list(row) for row in OPERATORS.items()])


def killers(outcomes: dict[str, Outcome]) -> str:
    """What notices how many mutants, by operator."""
    counts = Counter((outcome.by, name.split(": ")[1]) for name, outcome in outcomes.items())
    total = Counter(outcome.by for outcome in outcomes.values())
    longest = {by: max((o.steps or 0 for o in outcomes.values() if o.by == by), default=0) for by in total}
    rows = []
    for by, number in sorted(total.items(), key=lambda item: (item[0] in WORDS, -item[1])):
        by_operator = [str(counts[by, name] or "") for name in OPERATORS]
        rows.append([WORDS.get(by, f"`{by}`"), *by_operator, str(number), str(longest[by] or "")])
    sums = [str(sum(counts[by, name] for by in total)) for name in OPERATORS]
    return table(["noticed by", *OPERATORS, "all", "longest trace"], [*rows, ["all", *sums, str(len(outcomes)), ""]])


def survivors() -> str:
    """Why the others survive."""
    rows = [[kind, reason["because"], str(len(reason["mutants"]))] for kind, of in reasons().items() for reason in of]
    return table(["kind", "because", "mutants"], rows)
