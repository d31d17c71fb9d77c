"""The pictures of the reachable graph add up to the explored one."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import pytest

from stallproof.bounds import Bounds
from stallproof.errors import UsageError
from stallproof.explorer import explore
from stallproof.model import LifecycleModel
from stallproof.policies import RESIDENT_FIRST
from stallproof.report import reachable

SMALL = Bounds(live=2, gpu_pages=2, host_pages=0, max_prompt=1, max_output=2)


@pytest.fixture(scope="module")
def explored():
    return explore(LifecycleModel(RESIDENT_FIRST, SMALL))


@pytest.fixture(scope="module")
def picture():
    return reachable.abstract_graph(RESIDENT_FIRST, SMALL)


def test_every_state_and_transition_is_counted_once(explored, picture):
    assert sum(states for _, states in picture.nodes(data="states")) == explored.states
    assert sum(edge["passes"] + edge["moves"] for *_, edge in picture.edges(data=True)) == explored.transitions


def test_there_is_one_pass_a_state(explored, picture):
    assert sum(edge["passes"] for *_, edge in picture.edges(data=True)) == explored.states


def test_nodes_are_named_by_how_many_requests_are_in_which_phase(picture):
    """One or two requests with one-token prompts: nobody; waiting; a pass makes them active."""
    assert {"nobody", "1 waiting", "2 waiting", "1 active", "1 waiting, 1 active", "2 active"} <= set(picture)
    assert picture.nodes["nobody"]["states"] == 1
    assert picture.edges["nobody", "1 waiting"] == {"passes": 0, "moves": 1}
    assert picture.edges["nobody", "nobody"] == {"passes": 1, "moves": 0}


def test_both_languages_show_every_node_and_edge(picture):
    mermaid, dot = reachable.mermaid(picture), reachable.dot(picture)
    assert mermaid.count("-->") == dot.count("->") == picture.number_of_edges()
    for name in picture:
        assert f'"{name}<br/>' in mermaid
        assert f'label="{name}\\n' in dot


def test_a_picture_nobody_can_read_is_refused_with_what_to_do_instead():
    """Five requests in four live phases: C(9, 4) = 126 combinations at most, and most are reached."""
    with pytest.raises(UsageError, match=r"nobody reads more than 40\. Take fewer live requests, or .*--graphml"):
        reachable.abstract_graph(RESIDENT_FIRST, Bounds(live=5, gpu_pages=6, host_pages=1))


def test_the_whole_graph_comes_back_from_graphml(tmp_path, explored):
    path = tmp_path / "graph.graphml"
    reachable.write_graphml(RESIDENT_FIRST, SMALL, path)
    graph = nx.read_graphml(path, force_multigraph=True)
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (explored.states, explored.transitions)
    [start] = [node for node, initial in graph.nodes(data="initial") if initial]
    levels = nx.single_source_shortest_path_length(graph, start)
    assert levels == dict(graph.nodes(data="depth"))
    assert max(levels.values()) == explored.depth
    moves = Counter(move.split()[0] for *_, move in graph.edges(data="move"))
    assert moves["pass"] == explored.states
    assert set(moves) <= {"pass", "arrive", "refuse", "stop", "cancel"}


def test_a_graph_too_large_for_networkx_is_refused(monkeypatch, explored):
    monkeypatch.setattr(reachable, "MOST_STATES", explored.states - 1)
    with pytest.raises(UsageError, match="Take bounds with at most"):
        reachable.whole_graph(explored, SMALL.live)
