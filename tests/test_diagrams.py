"""The diagrams, parsed back: exactly the edges of the transition table."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from xml.etree import ElementTree

import pytest

from stallproof.errors import UsageError
from stallproof.lifecycle import TRANSITIONS, Phase
from stallproof.report import diagrams

TABLE = Counter((source, row.target, row.event.label, row.guard) for row in TRANSITIONS for source in row.sources)
BY_NAME = {phase.name.lower(): phase for phase in Phase}


def labelled(text: str) -> tuple[str, str]:
    """``grow [pages_fit]`` is the event grow under the guard pages_fit."""
    event, _, guard = text.partition(" [")
    return event, guard.removesuffix("]")


def test_mermaid_has_exactly_the_edges_of_the_table():
    """An arrow out of [*] starts at the phase new; the only arrow into it ends the diagram."""
    first, *lines = diagrams.mermaid().splitlines()
    assert first == "stateDiagram-v2"
    states, found, last = {}, Counter(), []
    for line in lines:
        if declared := re.fullmatch(r'    state "(.+)" as (\w+)', line):
            states[declared[2]] = declared[1]
        elif arrow := re.fullmatch(r"    (\[\*\]|\w+) --> (\w+): (.+)", line):
            source = Phase.NEW if arrow[1] == "[*]" else BY_NAME[arrow[1]]
            for label in arrow[3].split(", "):
                found[(source, BY_NAME[arrow[2]], *labelled(label))] += 1
        else:
            last.append(line)
    assert found == TABLE
    assert states == {phase.name.lower(): phase.label for phase in Phase if phase is not Phase.NEW}
    assert last == ["    finished --> [*]"]


def test_dot_has_exactly_the_edges_of_the_table():
    text = diagrams.dot()
    assert re.match(r"digraph \w+ \{\n(?s:.*)\n\}\n\Z", text)
    found = Counter(
        (BY_NAME[source], BY_NAME[target], *labelled(label))
        for source, target, labels in re.findall(r'^    (\w+) -> (\w+) \[label="(.*)"\];$', text, re.MULTILINE)
        for label in labels.split("\\n")
    )
    assert found == TABLE
    assert text.count("->") == len({edge[:2] for edge in TABLE})
    nodes = dict(re.findall(r'^    (\w+) \[.*label="(.*?)"\];$', text, re.MULTILINE))
    assert nodes == {"new": ""} | {phase.name.lower(): phase.label for phase in Phase if phase is not Phase.NEW}


def test_dot_is_read_by_another_parser_too():
    pydot = pytest.importorskip("pydot", reason="pydot is not installed; the test above reads dot with a pattern")
    (graph,) = pydot.graph_from_dot_data(diagrams.dot())
    found = {(edge.get_source(), edge.get_destination()) for edge in graph.get_edges()}
    assert found == {(source.name.lower(), target.name.lower()) for source, target, *_ in TABLE}


def test_svg_is_drawn_by_graphviz():
    if shutil.which("dot") is None:
        pytest.skip("Graphviz's program 'dot' is not installed")
    drawing = ElementTree.fromstring(diagrams.svg())
    assert drawing.tag.endswith("svg")
    words = "".join(drawing.itertext())
    assert all(phase.label in words for phase in Phase if phase is not Phase.NEW)


def test_svg_without_graphviz_says_what_to_do(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(UsageError, match=r"^--format svg: .*'dot' is not installed\. Install the package graphviz, or"):
        diagrams.svg()


def test_no_name_needs_quoting():
    """Neither language is escaped, so no label may hold what would need it."""
    for source, target, event, guard in TABLE:
        assert re.fullmatch(r"[\w -]+", f"{source.label} {target.label} {event} {guard}")
