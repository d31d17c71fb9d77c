"""The generated tables of ``docs/write-a-policy.md``: what a rule is asked, may read and may call; proposals judged."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from pathlib import Path

from model_checking.markdown import table
from stallproof.bounds import Bounds
from stallproof.checking import check
from stallproof.plan import Plan
from stallproof.policies import QUESTIONS, Policy, Rules, policy_named
from stallproof.policies.vetting import UNKNOWABLE, answers_question_with_a_row
from stallproof.report.verdicts import bounds_in_words
from stallproof.requests import Requests
from stallproof.tiers import Tiers

ROOT = Path(__file__).parent.parent


def _commented(table: type) -> list[tuple[str, str]]:
    """The columns of a table and what their comments say."""
    return re.findall(r"^    (\w+): [^#\n]+# (.+)$", inspect.getsource(table), re.MULTILINE)


def columns() -> str:
    """What a rule may read: every column of its three tables, with the unit."""
    rows = []
    for name, of in (("requests", Requests), ("tiers", Tiers), ("plan", Plan)):
        for column, says in _commented(of):
            if column in UNKNOWABLE:
                may = f"no: {UNKNOWABLE[column]}"
            elif column == "output_left":
                may = "yes; requests then arrive with every output length"
            else:
                may = "yes"
            rows.append([f"`{name}.{column}`", says.removeprefix("int64 "), may])
    return table(["column", "holds", "may a rule read it?"], rows)


def rules() -> str:
    """The questions of a pass: what each asks, and the kind of answer."""
    rows = []
    for question, says in _commented(Rules):
        kind = "`@victim`" if answers_question_with_a_row(question) else "`@decision`"
        rows.append([f"`{question}`", says, kind])
    return table(["rule", "asks", "is"], rows)


def questions() -> str:
    """The functions that a rule may call."""
    rows = []
    for question in QUESTIONS:
        plain = getattr(question, "py_func", question)
        arguments = ", ".join(inspect.signature(plain).parameters)
        rows.append([f"`{plain.__name__}({arguments})`", (plain.__doc__ or "").split("\n\n")[0].replace("\n   ", "")])
    return table(["question", "answers"], rows)


def examples() -> str:
    """The verdicts on the policies of ``examples/``, explored anew."""
    results = [
        (name, check(policy, bounds, threads=1))
        for policy in example_policies()
        for name, bounds in EXAMPLE_BOUNDS.items()
    ]
    rows = []
    for name, result in results:
        fails = ", ".join(f"`{p.name}` {p.trace_length}" for p in result.findings if p.trace_length is not None)
        rows.append([f"`{result.policy.name}`", name, result.verdict.value, fails, f"{result.states:,}"])
    bounds = "; ".join(f"{name}: {bounds_in_words(bounds)}" for name, bounds in EXAMPLE_BOUNDS.items())
    header = ["policy", "bounds", "verdict", "fails (steps of the shortest trace)", "states"]
    return f"{table(header, rows)}\n\n{bounds}."


EXAMPLE_BOUNDS = {"GPU only": Bounds(gpu_pages=3, host_pages=0, page_tokens=2, chunk_tokens=1), "host tier": Bounds()}
"""Where the examples are judged: a small GPU alone, and the default."""


def example_policies() -> list[Policy]:
    """Every rule of every file under ``examples/``, named without the folder."""
    found = []
    for path in sorted((ROOT / "examples").glob("*.py")):
        for name in re.findall(r"^@(?:victim|decision)\ndef (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            found.append(replace(policy_named(f"{path}:{name}"), name=f"{path.name}:{name}"))
    return found
