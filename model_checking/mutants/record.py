"""What became of every mutant: read and kept as ``matrix.json``, one mutant a line."""

from __future__ import annotations

import json
from pathlib import Path

from model_checking.mutants.running import Outcome

RECORD = Path(__file__).parent / "matrix.json"


def recorded() -> dict[str, Outcome]:
    """The record, by name of the mutant; empty if there is none."""
    if not RECORD.exists():
        return {}
    return {name: Outcome(*fields) for name, fields in json.loads(RECORD.read_text()).items()}


def write(outcomes: dict[str, Outcome]) -> None:
    """Keep the record, a mutant a line."""
    lines = (f"{json.dumps(name)}: {json.dumps(list(outcome))}" for name, outcome in outcomes.items())
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")
