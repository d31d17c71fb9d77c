"""The lifecycle's diagram, made from the transition table."""

from __future__ import annotations

import shutil
import subprocess

from stallproof.errors import UsageError
from stallproof.lifecycle import TRANSITIONS, Phase


def edges() -> dict[tuple[Phase, Phase], list[str]]:
    """Per pair of phases, the events that lead from one to the other, with their guards."""
    found: dict[tuple[Phase, Phase], list[str]] = {}
    for row in TRANSITIONS:
        label = f"{row.event.label} [{row.guard}]" if row.guard else row.event.label
        for source in row.sources:
            found.setdefault((source, row.target), []).append(label)
    return found


def _identifier(phase: Phase) -> str:
    return phase.name.lower()


def mermaid() -> str:
    """The lifecycle as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{phase.label}" as {_identifier(phase)}' for phase in Phase if phase is not Phase.NEW]
    for (source, target), labels in edges().items():
        start = "[*]" if source is Phase.NEW else _identifier(source)
        lines.append(f"    {start} --> {_identifier(target)}: {', '.join(labels)}")
    lines.append(f"    {_identifier(Phase.FINISHED)} --> [*]")
    return "\n".join(lines) + "\n"


def dot() -> str:
    """The lifecycle in Graphviz's language."""
    lines = ["digraph lifecycle {", "    rankdir=LR;", "    node [shape=box, style=rounded];"]
    lines.append('    new [shape=point, label=""];')
    lines += [f'    {_identifier(phase)} [label="{phase.label}"];' for phase in Phase if phase is not Phase.NEW]
    for (source, target), labels in edges().items():
        joined = "\\n".join(labels)
        lines.append(f'    {_identifier(source)} -> {_identifier(target)} [label="{joined}"];')
    return "\n".join([*lines, "}"]) + "\n"


def svg(text: str | None = None) -> str:
    """``text`` (Graphviz; the lifecycle if None) as SVG. Raises UsageError where ``dot`` is not installed."""
    program = shutil.which("dot")
    if program is None:
        raise UsageError(
            "Graphviz's program 'dot' is not installed",
            "--format svg",
            "Install the package graphviz, or use --format dot or mermaid.",
        )
    return subprocess.run([program, "-Tsvg"], input=text or dot(), capture_output=True, text=True, check=True).stdout


FORMATS = {"mermaid": mermaid, "dot": dot, "svg": svg}
