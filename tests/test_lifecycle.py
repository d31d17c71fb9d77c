"""The lifecycle: one table, and two implementations made from it that never disagree."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stallproof.lifecycle import GUARDS, TRANSITIONS, Event, IllegalTransition, Phase, ReferenceRequest
from stallproof.lookup import ILLEGAL, NEXT_PHASE, next_phase

RULES_MD = {
    "arrive": ("new", "waiting"),
    "admit": ("waiting recompute-paused", "active"),
    "grow": ("active", "active"),
    "suspend": ("active", "suspended"),
    "resume": ("suspended", "active"),
    "recompute-pause": ("active suspended", "recompute-paused"),
    "finish": ("active", "finished"),
    "cancel": ("waiting active suspended recompute-paused", "finished"),
}
"""The table of rules.md, typed off its page; "any but finished" are the phases of a request that has arrived."""

OURS = {
    "refuse": ("new", "finished"),  # rules.md: infeasible for ever is refused at arrival
    "schedule": ("active", "active"),  # its tokens are computed after the pass
    "migrate": ("suspended", "suspended"),  # rules.md: pages leave lazily
}
"""Events that rules.md describes in words, without a row."""

EDGES = {
    (event, source): target for event, (sources, target) in {**RULES_MD, **OURS}.items() for source in sources.split()
}

steps = st.tuples(st.sampled_from(Event), st.booleans())


def graph() -> nx.MultiDiGraph:
    lifecycle = nx.MultiDiGraph()
    lifecycle.add_nodes_from(Phase)
    for row in TRANSITIONS:
        lifecycle.add_edges_from((source, row.target, row.event) for source in row.sources)
    return lifecycle


def guard_of(event: Event) -> str:
    [guard] = {row.guard for row in TRANSITIONS if row.event is event}
    return guard


def test_the_table_is_that_of_rules_md_and_three_events_of_ours():
    table = {(row.event.label, source.label): row.target.label for row in TRANSITIONS for source in row.sources}
    assert table == EDGES


def test_every_event_leads_from_a_phase_to_one_phase_only():
    pairs = [(row.event, source) for row in TRANSITIONS for source in row.sources]
    assert len(pairs) == len(set(pairs)) == len(EDGES)


def test_every_event_has_one_row():
    assert [row.event for row in TRANSITIONS] == list(Event)


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("phase", Phase)
def test_the_lookup_array_says_what_the_table_says(phase, event):
    target = EDGES.get((event.label, phase.label))
    if target is None:
        assert NEXT_PHASE[phase, event] == ILLEGAL
        with pytest.raises(IllegalTransition):
            next_phase(0, int(phase), int(event))
    else:
        assert Phase(int(NEXT_PHASE[phase, event])).label == target
        assert Phase(next_phase(0, int(phase), int(event))).label == target


def test_the_guards_of_the_rows_are_exactly_those_that_are_explained():
    assert {row.guard for row in TRANSITIONS} - {""} == set(GUARDS)
    assert all(GUARDS.values())


def test_a_request_that_finished_has_no_way_out():
    assert not list(graph().out_edges(Phase.FINISHED))


def test_every_phase_can_be_reached_and_new_only_by_being_it():
    assert nx.descendants(graph(), Phase.NEW) == set(Phase) - {Phase.NEW}
    assert graph().in_degree(Phase.NEW) == 0


def test_every_live_phase_can_still_finish():
    assert nx.ancestors(graph(), Phase.FINISHED) == set(Phase) - {Phase.FINISHED}


@example([(Event.ARRIVE, True), (Event.ADMIT, False), (Event.ADMIT, True), (Event.RECOMPUTE_PAUSE, True)], 3)
@example([(Event.ARRIVE, True), (Event.ADMIT, True), (Event.SUSPEND, True), (Event.FINISH, True)], 7)
@given(st.lists(steps, max_size=25), st.integers(0, 1000))
def test_the_compiled_table_and_the_reference_machine_never_disagree(sequence, number):
    machine = ReferenceRequest(number)
    phase = Phase.NEW
    for event, guard in sequence:
        legal = NEXT_PHASE[phase, event] != ILLEGAL
        if not legal:
            with pytest.raises(IllegalTransition) as of_table:
                next_phase(number, int(phase), int(event))
            with pytest.raises(IllegalTransition) as of_machine:
                machine.happen(event, guard)
            for error in (of_table.value, of_machine.value):
                assert (error.request, error.phase, error.event) == (number, phase, event)
            assert str(of_table.value) == str(of_machine.value)
        else:
            reached = machine.happen(event, guard)
            if guard or not guard_of(event):  # else the caller does not fire
                phase = Phase(next_phase(number, int(phase), int(event)))
            assert reached is phase
        assert machine.phase is phase


def test_an_illegal_event_is_told_in_words():
    with pytest.raises(IllegalTransition) as caught:
        next_phase(4, int(Phase.RECOMPUTE_PAUSED), int(Event.RESUME))
    assert str(caught.value) == "request 4 is recompute-paused: the lifecycle does not allow the event 'resume'"
