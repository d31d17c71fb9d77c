"""Worst cases by hand, and against networkx over a graph of plain tuples made by a search of its own."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import NamedTuple

import networkx as nx
import numpy as np
import pytest

from model_checking.defects import freed_pages_stolen
from stallproof.bounds import Bounds
from stallproof.checking import check
from stallproof.lifecycle import Event, Phase
from stallproof.model import Kind, LifecycleModel, Move
from stallproof.packing import pack, unpack
from stallproof.policies import policy_named
from stallproof.worst_cases import CHEAP, SENTENCES

FREED_PAGES_STOLEN = freed_pages_stolen.POLICY
TWO = Bounds(live=2, gpu_pages=2, host_pages=0, chunk_tokens=1, max_prompt=1, max_output=2)
LIVELOCK = Bounds(gpu_pages=5, host_pages=1, max_prompt=2)
SMALL = (
    TWO,
    Bounds(live=2, gpu_pages=3, host_pages=1),
    Bounds(live=3, gpu_pages=2, host_pages=0, chunk_tokens=1, max_prompt=2, max_output=2),
    Bounds(live=3, gpu_pages=3, host_pages=1, max_prompt=1, max_output=2),
    Bounds(live=3, gpu_pages=3, host_pages=0, max_prompt=2, max_output=2, cancel=False),
    Bounds(live=3, gpu_pages=2, host_pages=1, page_tokens=2, max_prompt=2, max_output=2, early_stop=False),
)
OF_ONE_REQUEST = [name for name in SENTENCES if name.endswith("of_one_request")]


@cache
def found(policy, bounds):
    """The worst cases by name."""
    policy = policy_named(policy) if isinstance(policy, str) else policy
    return {case.name: case for case in check(policy, bounds, threads=1, all_worst_cases=True).worst_cases}


def values(policy, bounds):
    return {name: case.value for name, case in found(policy, bounds).items()}


# ---- by hand ---------------------------------------------------------------------------------------


def test_one_request_alone_is_never_preempted():
    """Prompt 3 in chunks of 2: 2 passes, the second yields the first of 3 tokens; 2 more passes for the rest."""
    assert values("resident-first", Bounds(live=1)) == {
        "passes_to_drain": 4,
        "passes_until_oldest_finishes": 4,
        "passes_of_one_request": 4,
        **dict.fromkeys(OF_ONE_REQUEST[1:], 0),
        "preemptions_draining": 0,
        "recomputed_per_token": 0,
        "recomputed_per_token_draining": 0,
    }


@pytest.mark.parametrize("policy", ["resident-first", "helix-published"])
def test_where_everybody_fits_nobody_waits_for_anybody(policy):
    """Two requests of at most 3 + 3 - 1 pages in 10: each needs the 4 passes it needs alone."""
    assert set(list(values(policy, Bounds(live=2, gpu_pages=10, host_pages=2)).values())[:3]) == {4}
    assert set(list(values(policy, Bounds(live=2, gpu_pages=10, host_pages=2)).values())[3:]) == {0}


def test_two_requests_that_need_two_pages_each_share_two_pages():
    """Prompt 1, output 2: a page for the first pass, two for the second, which is the last. Both first passes fit.

    In the next pass the older decode takes the second page and finishes; the newer, which had computed 1 token
    and got 1, is paused. It is the oldest now and has 2 tokens to replay, a pass each. A third that has arrived
    has a page when the second token needs it, so a pass goes by in which the third is paused for it (K6: the
    page is taken in the pass after). So the oldest needs 3 passes; the newer of two, which waits for those and
    then is such an oldest itself, 6; to drain, with nobody to arrive behind it any more, 3 and 2. Nobody is
    before an oldest, so one is preempted once. Each time a token is lost, the victim had got one, and the
    older one gets one before it leaves: 1/2, for ever and draining.
    """
    assert values("resident-first", TWO) == {
        "passes_to_drain": 5,
        "passes_until_oldest_finishes": 3,
        "passes_of_one_request": 6,
        "preemptions_of_one_request": 1,
        "suspensions_of_one_request": 0,
        "recompute_pauses_of_one_request": 1,
        "preemptions_draining": 1,
        "recomputed_per_token": Fraction(1, 2),
        "recomputed_per_token_draining": Fraction(1, 2),
    }


def test_a_dead_end_lets_nobody_drain_and_preempts_nobody_for_ever():
    """4 GPU pages, no host: the lasso of ``no-dead-end``, a pass that decides nothing, 4 steps."""
    cases = found("helix-published", Bounds(gpu_pages=4, host_pages=0))
    for name in ("passes_to_drain", "passes_until_oldest_finishes", "passes_of_one_request"):
        assert cases[name].value is None
        assert (len(cases[name].moves), cases[name].loop_start) == (4, 3)
        assert cases[name].run.moments[-1].operations == ()
    assert all(cases[name].value is not None for name in OF_ONE_REQUEST[1:])


def test_a_livelock_suspends_the_same_request_for_ever():
    """Finding 2 of ``rules.md``: the newer decode resumes, cannot grow and suspends itself, pass after pass."""
    case = found("helix-published", LIVELOCK)["suspensions_of_one_request"]
    assert case.value is None
    for moment in case.run.moments[case.loop_start :]:
        assert [(o.event, o.request) for o in moment.operations] == [
            (Event.RESUME, case.request),
            (Event.SUSPEND, case.request),
        ]


def test_freed_pages_that_are_stolen_are_recomputed_for_ever_for_nothing():
    """Without K6 the victim takes its pages back in the pass that paused it: tokens computed again, none delivered."""
    cases = found(FREED_PAGES_STOLEN, Bounds(gpu_pages=3, host_pages=0, chunk_tokens=1, max_prompt=2, max_output=2))
    assert cases["recomputed_per_token"].value is None
    assert cases["recompute_pauses_of_one_request"].value is None
    loop = cases["recomputed_per_token"].run.moments[cases["recomputed_per_token"].loop_start :]
    assert any(o.event is Event.RECOMPUTE_PAUSE for moment in loop for o in moment.operations)
    assert {r.tokens for r in loop[0].requests} == {r.tokens for r in loop[-1].requests}


# ---- against a second search -----------------------------------------------------------------------


class Edge(NamedTuple):
    """One transition of the plain search."""

    source: bytes
    target: bytes
    kind: Kind
    place: dict[int, int]  # the new row of each row that stays
    finished: frozenset[int]
    suspended: tuple[int, ...]
    paused: tuple[int, ...]
    recomputed: int
    generated: int


def rows_of(table):
    return [r for r in range(len(table.phase)) if Phase(int(table.phase[r])) not in (Phase.NEW, Phase.FINISHED)]


@cache
def plain(policy, bounds) -> tuple[Edge, ...]:
    """Every transition, a move at a time, over states as bytes."""
    policy = policy_named(policy) if isinstance(policy, str) else policy
    model = LifecycleModel(policy, bounds)
    step = model.new_step()
    start = model.initial_rows()[0].tobytes()
    edges, known, waiting = [], {start}, [start]
    while waiting:
        state = waiting.pop()
        row = np.frombuffer(state, np.uint64)
        for label in model.successors(row[None, :]).label:
            move = Move.of_label(int(label))
            unpack(row, step.before, step.tiers_before)
            before = rows_of(step.before)
            model.run(step, move)
            target = np.zeros_like(row)
            pack(step.after, step.tiers, target)
            after = rows_of(step.after)
            is_pass = move.kind is Kind.PASS
            done = range(int(step.plan.operations[0]) if is_pass else 0)
            events = [(Event(int(step.plan.event[k])), int(step.plan.request[k])) for k in done]
            paused = tuple(r for event, r in events if event is Event.RECOMPUTE_PAUSE)
            edges.append(
                Edge(
                    source=state,
                    target=target.tobytes(),
                    kind=move.kind,
                    place={r: after.index(r) for r in before if r in after},
                    finished=frozenset(r for r in before if r not in after and is_pass),
                    suspended=tuple(r for event, r in events if event is Event.SUSPEND),
                    paused=paused,
                    recomputed=sum(int(step.before.computed[r]) for r in paused),
                    # what it may still generate gets less by what it generates
                    generated=sum(int(step.before.output_left[r] - step.after.output_left[r]) for r in before)
                    if is_pass
                    else 0,
                )
            )
            if target.tobytes() not in known:
                known.add(target.tobytes())
                waiting.append(target.tobytes())
    return tuple(edges)


def heaviest(edges) -> int | None:
    """The greatest weight of a run over (source, target, weight) edges by networkx, or None if a cycle has weight."""
    graph = nx.DiGraph()
    for source, target, weight in edges:
        known = graph.get_edge_data(source, target, {"weight": -1})
        graph.add_edge(source, target, weight=max(weight, known["weight"]))
    parts = nx.condensation(graph)
    part_of = parts.graph["mapping"]
    between = nx.DiGraph()
    between.add_nodes_from(parts)
    for source, target, weight in graph.edges(data="weight"):
        a, b = part_of[source], part_of[target]
        if a != b:
            known = between.get_edge_data(a, b, {"weight": -1})
            between.add_edge(a, b, weight=max(weight, known["weight"]))
        elif weight > 0:
            return None
    return nx.dag_longest_path_length(between, weight="weight")


def following(edges, rows, weight):
    """The edges over (state, row) for the requests in ``rows``; finishing in a pass leads out."""
    for edge in edges:
        for r in rows:
            if r in edge.place and edge.place[r] in rows:
                yield (edge.source, r), (edge.target, edge.place[r]), weight(edge, r)
            elif r in edge.finished:
                yield (edge.source, r), "finished", weight(edge, r)


def reference(name, edges, live):
    """A worst case that counts whole numbers, from the plain edges."""
    passes = [edge for edge in edges if edge.kind is Kind.PASS and any(edge.source)]

    def a_pass(edge, r):
        return int(edge.kind is Kind.PASS)

    def preempted(edge, r):
        return edge.suspended.count(r) + edge.paused.count(r)

    return {
        "passes_to_drain": lambda: heaviest((e.source, e.target, 1) for e in passes),
        "passes_until_oldest_finishes": lambda: heaviest(following(edges, [0], a_pass)),
        "passes_of_one_request": lambda: heaviest(following(edges, range(live), a_pass)),
        "preemptions_of_one_request": lambda: heaviest(following(edges, range(live), preempted)),
        "suspensions_of_one_request": lambda: heaviest(
            following(edges, range(live), lambda e, r: e.suspended.count(r))
        ),
        "recompute_pauses_of_one_request": lambda: heaviest(
            following(edges, range(live), lambda e, r: e.paused.count(r))
        ),
        "preemptions_draining": lambda: heaviest(following(passes, range(live), preempted)),
    }[name]()


MODELS = [
    *(
        (policy, bounds)
        for policy in ("resident-first", "helix-published", "vllm-fcfs", "swap-first")
        for bounds in SMALL
    ),
    ("helix-published", LIVELOCK),
    (FREED_PAGES_STOLEN, SMALL[-2]),
]
EVERYWHERE = pytest.mark.parametrize(("policy", "bounds"), MODELS, ids=lambda value: getattr(value, "name", str(value)))


@EVERYWHERE
def test_every_count_is_that_of_networkx_over_a_plain_search(policy, bounds):
    edges = plain(policy, bounds)
    counts = [name for name in SENTENCES if not name.startswith("recomputed_per_token")]
    expected = {name: reference(name, edges, bounds.live) for name in counts}
    assert {name: value for name, value in values(policy, bounds).items() if name in counts} == expected


@EVERYWHERE
def test_no_cycle_has_a_greater_ratio_than_the_one_named(policy, bounds):
    """With p generated tokens weighed against q recomputed ones no cycle is negative, by networkx's Bellman-Ford."""
    case = found(policy, bounds)["recomputed_per_token"]
    if case.value is None:
        return  # the run itself shows it, see the recount
    graph = nx.DiGraph()
    for edge in plain(policy, bounds):
        if edge.kind is not Kind.CANCEL:
            weight = case.value.numerator * edge.generated - case.value.denominator * edge.recomputed
            known = graph.get_edge_data(edge.source, edge.target, {"weight": weight})
            graph.add_edge(edge.source, edge.target, weight=min(weight, known["weight"]))
    assert not nx.negative_edge_cycle(graph)


@EVERYWHERE
def test_no_way_to_drain_recomputes_more_per_token(policy, bounds):
    after = {edge.source: edge for edge in plain(policy, bounds) if edge.kind is Kind.PASS}
    ratios = [Fraction(0)]
    for start in after:
        state, recomputed, generated, passes = start, 0, 0, 0
        while any(state) and passes <= len(after):
            recomputed += after[state].recomputed
            generated += after[state].generated
            state, passes = after[state].target, passes + 1
        if generated and not any(state):
            ratios.append(Fraction(recomputed, generated))
    assert found(policy, bounds)["recomputed_per_token_draining"].value == max(ratios)


# ---- what is true of all ---------------------------------------------------------------------------


@EVERYWHERE
def test_preemptions_of_one_request_are_bounded_where_the_oldest_finishes(policy, bounds):
    """Though arrivals never end: a cycle that keeps a request keeps all older ones, and the oldest would starve."""
    cases = found(policy, bounds)
    if cases["passes_until_oldest_finishes"].value is not None:
        assert all(cases[name].value is not None for name in OF_ONE_REQUEST)


@EVERYWHERE
def test_one_kind_of_preemption_is_no_more_than_both_and_draining_no_more_than_ever(policy, bounds):
    cases = {name: case.value for name, case in found(policy, bounds).items()}
    both = cases["preemptions_of_one_request"]
    if both is None:
        return
    suspensions, pauses = cases["suspensions_of_one_request"], cases["recompute_pauses_of_one_request"]
    assert max(suspensions, pauses, cases["preemptions_draining"]) <= both <= suspensions + pauses


def test_a_default_check_computes_the_cheap_ones_alone():
    result = check(bounds=TWO, threads=1)
    assert tuple(case.name for case in result.worst_cases) == CHEAP


def test_of_a_search_that_was_cut_off_nothing_is_known():
    result = check(max_states=100, threads=1, all_worst_cases=True)
    assert result.worst_cases == ()


def test_the_request_that_is_followed_is_called_by_its_number_of_arrival():
    """In TWO the victim is the one that arrived second."""
    case = found("resident-first", TWO)["preemptions_of_one_request"]
    assert case.request == 2
    paused = [o.request for m in case.run.moments for o in m.operations if o.event is Event.RECOMPUTE_PAUSE]
    assert paused == [2]
