"""Writes the parts of README and docs that are made from the manifest, the tables of the code and the policies.

``python -m model_checking.tables --write``; without ``--write`` it compares, and fails on a difference.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from model_checking.crosscheck import MANIFEST, bounds_of
from model_checking.defects import SHELF
from model_checking.guide_tables import columns, examples, questions, rules
from model_checking.markdown import table
from model_checking.mutants import record, telling
from stallproof.bounds import Bounds
from stallproof.comparing import survey
from stallproof.lifecycle import GUARDS, TRANSITIONS, Event, Phase
from stallproof.policies import POLICIES
from stallproof.properties import PROPERTIES
from stallproof.report.comparisons import page_for, print_policies
from stallproof.report.diagrams import mermaid
from stallproof.worst_cases import SENTENCES

ROOT = Path(__file__).parent.parent


def _fails(entry: dict[str, Any]) -> str:
    claimed = [f"`{n}` {f['trace_length']}" for n, f in entry["failing"].items() if f["claimed"]]
    others = [f"`{n}` {f['trace_length']}" for n, f in entry["failing"].items() if not f["claimed"]]
    return "; ".join(filter(None, [", ".join(claimed), f"not claimed: {', '.join(others)}" if others else ""]))


def _richer(bounds: Bounds) -> str:
    """What the bounds switch on that is off by default."""
    switched = [
        (f"lookahead {bounds.lookahead}", bounds.lookahead),
        (f"{bounds.state_pages} pages of state", bounds.state_pages),
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


def _reference(address: str) -> str:
    """A link with a short name: the repository, and the number of the pull request or issue."""
    *_, repository, _, number = address.split("/")
    return f"[{repository} {number}]({address})"


def defects() -> str:
    """Every defect of the shelf, with what it breaks and where."""
    rows = []
    for defect in SHELF:
        b = defect.bounds
        sizes = f"{b.live} live; {b.gpu_pages}, {b.host_pages} pages of {b.page_tokens}; chunk {b.chunk_tokens}"
        lengths = f"; lengths to {b.max_prompt}, {b.max_output}" + ("" if b.cancel else "; no cancel") + _richer(b)
        worst = defect.breaks in SENTENCES
        breaks = f"worst case of `{defect.breaks}`" if worst else f"`{defect.breaks}`"
        found = ", ".join(_reference(address) for address in defect.references) or "found by exploring"
        place = f"{found}, {defect.scenario}" if defect.scenario else found
        steps = f"{defect.steps} times" if worst else str(defect.steps)
        rows.append([f"`{defect.name}`", defect.wrong, place, breaks, steps, sizes + lengths])
    return table(["defect", "what is wrong", "reference, scenario", "breaks", "steps", "bounds"], rows)


PARTS = {
    "killers": lambda: telling.killers(record.recorded()),
    "operators": telling.operators,
    "survivors": telling.survivors,
    "defects": defects,
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
FILES = (
    "README.md",
    "docs/defects.md",
    "docs/lifecycle.md",
    "docs/mutants.md",
    "docs/specification.md",
    "docs/write-a-policy.md",
)


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
