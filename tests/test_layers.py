"""A module imports only from the layers below it. The table is that of the design; a new module needs a place in it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "stallproof"
MOST_LINES = 350

LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "claims", "compiled", "bounds", "files"),
    ("lifecycle",),
    ("lookup", "requests", "tiers", "limits", "observations"),
    ("plan", "candidates", "room", "policies", "recording"),
    ("scheduling", "witness", "predicates", "occurrences", "properties", "monitor"),
    ("explorer", "pages", "outcomes", "observing", "sweeping", "packing", "plain_states"),
    ("model", "asking_again", "engine", "checking", "traces", "following", "worst_cases", "certifier", "recounting"),
    ("workloads", "driving", "comparing", "replaying", "integrations"),
    ("report", "benchmarks", "commands", "testing", "cli"),
)
"""A name is a module of ``stallproof`` or a package in it, which is one thing here."""

LAYER = {name: number for number, names in enumerate(LAYERS) for name in names}

WITHIN_A_LAYER = {
    ("bounds", "errors"),
    ("claims", "errors"),
    ("files", "errors"),
    ("tiers", "requests"),
    ("tiers", "lookup"),
    ("limits", "requests"),
    ("policies", "plan"),
    ("policies", "candidates"),
    ("policies", "room"),
    ("room", "plan"),
    ("predicates", "witness"),
    ("occurrences", "predicates"),
    ("occurrences", "witness"),
    ("properties", "occurrences"),
    ("properties", "predicates"),
    ("properties", "witness"),
    ("asking_again", "model"),
    ("checking", "asking_again"),
    ("checking", "model"),
    ("checking", "traces"),
    ("checking", "worst_cases"),
    ("following", "model"),
    ("worst_cases", "following"),
    ("worst_cases", "model"),
    ("worst_cases", "traces"),
    ("recounting", "certifier"),
    ("traces", "model"),
    ("driving", "workloads"),
    ("comparing", "driving"),
    ("comparing", "workloads"),
    ("commands", "report"),
    ("testing", "report"),
    ("commands", "benchmarks"),
    ("cli", "commands"),
}

NOTHING_BUT = {
    "explorer": {"errors", "claims", "compiled"},
    "pages": {name for names in LAYERS[:4] for name in names},
    "workloads": set(LAYERS[0]),
    "integrations": {"claims", "lifecycle", "monitor", "observations", "recording"},
    "monitor": {"errors", "claims", "lifecycle", "observations", "recording"},
}
"""Stricter than the layers: the explorer knows no request, the page manager no pass, a workload no scheduler.

The monitor knows what is observed, and neither the pass nor a policy nor pages."""

HEAVY = ("torch", "numba", "numpy", "scipy", "networkx", "transitions", "rich")

FILES = sorted(SOURCE.rglob("*.py"))
PYTHON = pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(SOURCE)) for path in FILES])


def place(path):
    """The module's or its package's name in the table; '' for the root."""
    first = path.relative_to(SOURCE).parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


def imported(tree):
    """The dotted names of all modules a tree imports, inside functions and type-checking blocks too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "say where from: relative imports are not read here"
            if node.module == "stallproof":
                yield from (f"stallproof.{alias.name}" for alias in node.names)
            else:
                yield node.module


def own_imports(path):
    """The places in the table that a file imports from, its own left out."""
    names = (name.split(".") for name in imported(ast.parse(path.read_text())))
    places = {name[1] for name in names if name[0] == "stallproof" and len(name) > 1}
    return {name for name in places if not name.startswith("__")} - {place(path)}


def complaint(importer, target):
    """Why the table forbids the import, or ''."""
    if target not in LAYER:
        return f"{target} has no layer"
    if target not in NOTHING_BUT.get(importer, LAYER):
        return f"{importer} may not know {target}"
    if LAYER[target] > LAYER[importer]:
        return f"{target} stands above {importer}"
    if LAYER[target] == LAYER[importer] and (importer, target) not in WITHIN_A_LAYER:
        return f"{importer} and {target} stand side by side"
    return ""


@PYTHON
def test_every_module_has_a_layer(path):
    assert place(path) in {"", *LAYER}


@PYTHON
def test_a_module_imports_only_from_below(path):
    if importer := place(path):
        assert [text for target in sorted(own_imports(path)) if (text := complaint(importer, target))] == []


@PYTHON
def test_only_the_page_manager_imports_torch(path):
    if place(path) != "pages":
        assert "torch" not in {name.split(".")[0] for name in imported(ast.parse(path.read_text()))}


@PYTHON
def test_a_module_fits_in_a_head(path):
    lines = len(path.read_text().splitlines())
    assert lines <= MOST_LINES


def test_the_lazy_upward_import_is_inside_a_function():
    tree = ast.parse((SOURCE / "errors.py").read_text())
    assert not [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]


def test_the_exceptions_of_the_table_are_needed():
    used = {(place(path), target) for path in FILES for target in own_imports(path)}
    assert used >= WITHIN_A_LAYER


@pytest.mark.parametrize(
    ("importer", "target", "text"),
    [
        ("plan", "candidates", "plan and candidates stand side by side"),
        ("tiers", "plan", "plan stands above tiers"),
        ("explorer", "plan", "explorer may not know plan"),
        ("pages", "scheduling", "pages may not know scheduling"),
        ("model", "nowhere", "nowhere has no layer"),
        ("model", "scheduling", ""),
        ("tiers", "requests", ""),
    ],
)
def test_the_table_itself_can_say_no(importer, target, text):
    assert complaint(importer, target) == text


@pytest.mark.parametrize("module", ["stallproof", "stallproof.monitor", "stallproof.integrations.vllm"])
def test_importing_the_package_or_a_watcher_loads_nothing_heavy(module):
    """A watcher lives in every process of its engine. vLLM 0.32 on CPU does not start where Numba is loaded."""
    code = f"import sys, {module}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
