"""Writes the parts of README and docs that are made from the manifest, the tables of the code and the policies.

``python -m model_checking.tables --write``; without ``--write`` it compares, and fails on a difference.
"""

from __future__ import annotations

import argparse
import inspect
import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from model_checking.crosscheck import MANIFEST, bounds_of
from stallproof.bounds import Bounds
from stallproof.checking import check
from stallproof.comparing import survey
from stallproof.lifecycle import GUARDS, TRANSITIONS, Event, Phase
from stallproof.plan import Plan
from stallproof.policies import POLICIES, QUESTIONS, Policy, Rules, policy_named
from stallproof.policies.vetting import UNKNOWABLE, answers_question_with_a_row
from stallproof.properties import PROPERTIES
from stallproof.report.comparisons import page_for, print_policies
from stallproof.report.diagrams import mermaid
from stallproof.report.verdicts import bounds_in_words
from stallproof.requests import Requests
from stallproof.tiers import Tiers

ROOT = Path(__file__).parent.parent


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _fails(entry: dict[str, Any]) -> str:
    claimed = [f"`{n}` {f['trace_length']}" for n, f in entry["failing"].items() if f["claimed"]]
    others = [f"`{n}` {f['trace_length']}" for n, f in entry["failing"].items() if not f["claimed"]]
    return "; ".join(filter(None, [", ".join(claimed), f"not claimed: {', '.join(others)}" if others else ""]))


def _richer(bounds: Bounds) -> str:
    """What the bounds switch on that is off by default."""
    switched = [
        (f"lookahead {bounds.lookahead}", bounds.lookahead),
        (f"{bounds.priorities} priorities", bounds.priorities > 1),
        (f"{bounds.pass_requests} requests a pass", bounds.pass_requests),
        (f"{bounds.pass_tokens} tokens a pass", bounds.pass_tokens),
        ("copies take time", bounds.copies),
    ]
    return "".join(f"; {words}" for words, on in switched if on)


def agreements() -> str:
    """Every model of the manifest: what the explorer and Rumur agree on."""
    models = json.loads(MANIFEST.read_text(encoding="utf-8"))["models"]
    rows = []
    for entry in models:
        b = bounds_of(entry)
        sizes = [str(n) for n in (b.live, b.gpu_pages, b.host_pages, b.page_tokens, b.chunk_tokens)]
        lengths = f"{b.max_prompt}, {b.max_output}" + ("" if b.cancel else ", no cancel") + _richer(b)
        size = [f"{entry['states']:,}", f"{entry['transitions']:,}", str(entry["depth"])]
        rows.append([f"`{entry['policy']}`", *sizes, lengths, entry["verdict"], *size, _fails(entry)])
    return table(
        [
            *("policy", "live", "GPU", "host", "page", "chunk", "prompt, output to", "verdict"),
            *("states", "transitions", "depth", "fails (steps of the shortest trace)"),
        ],
        rows,
    )


def verdicts() -> str:
    """The properties, and in how many models of the manifest each policy fails them."""
    models = json.loads(MANIFEST.read_text(encoding="utf-8"))["models"]
    policies = sorted({entry["policy"] for entry in models}, reverse=True)
    rows = []
    for claim in PROPERTIES:
        if claim.kind.value == "sometimes":
            continue
        cells = []
        for policy in policies:
            of_policy = [entry for entry in models if entry["policy"] == policy]
            failing = [entry["failing"][claim.name] for entry in of_policy if claim.name in entry["failing"]]
            shortest = min((f["trace_length"] for f in failing), default=None)
            note = "" if all(f["claimed"] for f in failing) else ", not claimed"
            fails = f"fails in {len(failing)} of {len(of_policy)}, {shortest} steps{note}"
            cells.append(fails if failing else "holds")
        rows.append([f"`{claim.name}`", claim.sentence, *cells])
    return table(["property", "sentence", *(f"`{policy}`" for policy in policies)], rows)


def policies() -> str:
    """Every policy at the reference bounds: verdict, what fails, worst cases. Explored anew, in a second."""
    text = io.StringIO()
    print_policies(list(survey(POLICIES.values())), page_for(Console(file=text), markdown=True))
    return text.getvalue().rstrip()


def contract() -> str:
    """Every configuration of the TLA+ contract: what the explorer and TLC agree on."""
    rows = []
    for entry in json.loads(MANIFEST.read_text(encoding="utf-8"))["tlc"]["configurations"]:
        claims = "safety" if len(entry["claims"]) > 1 else ""
        liveness = [name for name in entry["claims"] if name in ("NobodyStaysWithout", "EveryRequestFinishes")]
        other = entry["claims"] if not claims and not liveness else []
        judged = ", ".join(filter(None, [claims, *(f"`{name}`" for name in [*liveness, *other])]))
        size = [f"{entry['distinct_states']:,}", f"{entry['states_generated']:,}", str(entry["depth"])]
        rows.append([f"`{entry['config']}`", f"`{entry['specification']}`", judged, entry["expected"], *size])
    header = ("configuration", "specification", "claims", "verdict", "distinct states", "states generated", "depth")
    return table([*header], rows)


def lifecycle() -> str:
    """The transition table, the guards and the diagram."""
    transitions = [
        [row.event.label, ", ".join(s.label for s in row.sources), row.target.label, row.guard, row.pages]
        for row in TRANSITIONS
    ]
    guards = [[f"`{name}`", sentence] for name, sentence in GUARDS.items()]
    return "\n\n".join(
        [
            table(["event", "from", "to", "guard", "pages and tokens"], transitions),
            table(["guard", "says"], guards),
            f"```mermaid\n{mermaid()}```",
        ]
    )


def vocabulary() -> str:
    """The names that specification, code, explorer and files share."""
    return table(
        ["phases", "events"],
        [[", ".join(p.label for p in Phase), ", ".join(e.label for e in Event)]],
    )


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


PARTS = {
    "columns": columns,
    "rules": rules,
    "questions": questions,
    "examples": examples,
    "agreements": agreements,
    "contract": contract,
    "policies": policies,
    "verdicts": verdicts,
    "lifecycle": lifecycle,
    "vocabulary": vocabulary,
}
FILES = ("README.md", "docs/lifecycle.md", "docs/specification.md", "docs/write-a-policy.md")


def regenerated(text: str) -> str:
    """``text`` with every generated part made anew."""

    def part(match: re.Match[str]) -> str:
        return f"{match[1]}\n{PARTS[match[2]]()}\n{match[4]}"

    return re.sub(r"(<!-- generated: (\w+) -->)(.*?)(<!-- end -->)", part, text, flags=re.DOTALL)


def main() -> int:
    """Write or compare."""
    options = argparse.ArgumentParser(description="Write, or compare, the generated parts of README and docs.")
    options.add_argument("--write", action="store_true")
    write = options.parse_args().write
    stale = []
    for name in FILES:
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        made = regenerated(text)
        if made != text:
            stale.append(name)
            if write:
                path.write_text(made, encoding="utf-8")
    for name in stale:
        print(f"{name}: {'written' if write else 'is not what the manifest and the table say; run with --write'}")
    return 1 if stale and not write else 0


if __name__ == "__main__":
    sys.exit(main())
