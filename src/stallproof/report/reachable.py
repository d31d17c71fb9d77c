"""The explored graph for people (abstract: how many requests in which phase) and for networkx (whole)."""

from __future__ import annotations

from collections import Counter
from io import BytesIO
from pathlib import Path

import networkx as nx
import numpy as np

from stallproof.bounds import Bounds
from stallproof.errors import UsageError
from stallproof.explorer import SYSTEM_STEP, Exploration, explore
from stallproof.files import write_whole
from stallproof.lifecycle import Phase
from stallproof.model import OF_A_ROW, Kind, LifecycleModel, Move
from stallproof.policies import Policy

MOST_NODES = 40
"""More than this nobody reads in one picture."""

MOST_EXPLORED = 500_000
"""The most states that a picture or a graph is made from."""

MOST_STATES = 200_000
"""The most states of a whole graph: networkx needs about a kilobyte for each."""


def _explored(policy: Policy, bounds: Bounds) -> Exploration:
    graph = explore(LifecycleModel(policy, bounds), max_states=MOST_EXPLORED)
    if not graph.complete:
        raise UsageError(
            f"there are more than {MOST_EXPLORED:,} states", "diagram", "Take smaller bounds: nobody reads that."
        )
    return graph


def abstract_graph(policy: Policy, bounds: Bounds) -> nx.DiGraph:
    """A node for each combination of phases, with ``states``; an edge with its number of ``passes`` and ``moves``.

    Raises UsageError if the picture would have more than :data:`MOST_NODES` nodes.
    """
    graph = _explored(policy, bounds)
    names = [_phases_in_words(row[: bounds.live]) for row in graph.rows]
    distinct = Counter(names)
    if len(distinct) > MOST_NODES:
        raise UsageError(
            f"the picture would have {len(distinct)} nodes, and nobody reads more than {MOST_NODES}",
            "diagram --reachable",
            "Take fewer live requests, or write the whole graph with --graphml FILE.",
        )
    picture = nx.DiGraph()
    for name, states in distinct.items():
        picture.add_node(name, states=states)
    source = np.repeat(np.arange(graph.states), np.diff(graph.first_edge))
    is_pass = graph.facts >> np.uint64(SYSTEM_STEP) != 0
    for (here, there, by_pass), times in Counter(
        (names[s], names[t], bool(p)) for s, t, p in zip(source, graph.target, is_pass, strict=True)
    ).items():
        if not picture.has_edge(here, there):
            picture.add_edge(here, there, passes=0, moves=0)
        picture.edges[here, there]["passes" if by_pass else "moves"] += times
    return picture


def _phases_in_words(row: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> str:
    phases = Counter(Phase(int(word) & 7) for word in row if word)
    return ", ".join(f"{phases[phase]} {phase.label}" for phase in Phase if phases[phase]) or "nobody"


def _edge_label(edge: dict[str, int]) -> str:
    parts = [f"{edge[what]} {what}" for what in ("passes", "moves") if edge[what]]
    return ", ".join(parts)


def mermaid(picture: nx.DiGraph) -> str:
    """The picture as a Mermaid flow chart."""
    numbers = {name: f"s{k}" for k, name in enumerate(picture)}
    lines = ["flowchart LR"]
    lines += [f'    {numbers[name]}["{name}<br/>{picture.nodes[name]["states"]} states"]' for name in picture]
    lines += [f'    {numbers[a]} -->|"{_edge_label(edge)}"| {numbers[b]}' for a, b, edge in picture.edges(data=True)]
    return "\n".join(lines) + "\n"


def dot(picture: nx.DiGraph) -> str:
    """The picture in Graphviz's language."""
    lines = ["digraph reachable {", "    rankdir=LR;", "    node [shape=box, style=rounded];"]
    lines += [f'    "{name}" [label="{name}\\n{picture.nodes[name]["states"]} states"];' for name in picture]
    lines += [f'    "{a}" -> "{b}" [label="{_edge_label(edge)}"];' for a, b, edge in picture.edges(data=True)]
    return "\n".join([*lines, "}"]) + "\n"


def whole_graph(graph: Exploration, live: int) -> nx.MultiDiGraph:
    """Every state and transition. Nodes have ``phases``, ``initial``, ``depth``; edges ``move`` and ``is_pass``."""
    if graph.states > MOST_STATES:
        raise UsageError(
            f"the graph has {graph.states:,} states, and networkx would need some gigabytes",
            "--graphml",
            f"Take bounds with at most {MOST_STATES:,} states.",
        )
    whole = nx.MultiDiGraph()
    for state, row in enumerate(graph.rows):
        whole.add_node(state, phases=_phases_in_words(row[:live]), initial=state == 0, depth=graph.depth_of(state))
    source = np.repeat(np.arange(graph.states), np.diff(graph.first_edge))
    for here, there, label in zip(source, graph.target, graph.label, strict=True):
        move = Move.of_label(int(label))
        whole.add_edge(int(here), int(there), move=_move_in_words(move), is_pass=move.kind.name == "PASS")
    return whole


def _move_in_words(move: Move) -> str:
    name = move.kind.name.lower().replace("_", " ")
    if move.prompt:
        priority = f" priority {move.priority}" if move.priority else ""
        return f"{name} prompt {move.prompt} output {move.output}{priority}"
    if move.kind is Kind.PASS:
        return f"{name} drafts {move.drafts}" if move.drafts else name
    return f"{name} row {move.request}" if move.kind in OF_A_ROW else name


def write_graphml(policy: Policy, bounds: Bounds, path: Path) -> None:
    """Write the whole graph as GraphML."""
    text = BytesIO()
    nx.write_graphml(whole_graph(_explored(policy, bounds), bounds.live), text)
    write_whole(path, text.getvalue().decode(), "--graphml")
