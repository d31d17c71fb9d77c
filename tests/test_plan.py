"""The plan: what it writes down, and what it refuses to."""

from __future__ import annotations

import pytest
from situations import Situation, counts_of, decode, rows_of, suspended_decode, tables, waiting

from stallproof.lifecycle import Event, IllegalTransition, Phase
from stallproof.limits import Limits
from stallproof.plan import SELF, Rule, clear, new_plan, perform
from stallproof.tiers import GPU

SOME = Situation(6, 2, [decode(2), decode(3), waiting(2)])


def columns(plan):
    k = int(plan.operations[0])
    return [
        tuple(int(value) for value in operation)
        for operation in zip(plan.event[:k], plan.request[:k], plan.amount[:k], plan.requester[:k], strict=True)
    ]


def test_a_new_plan_says_nothing():
    plan = new_plan(3)
    assert columns(plan) == []
    assert not any(column.any() for column in plan)
    assert len(plan.fired) == len(Rule)


def test_operations_stand_in_the_order_in_which_they_were_carried_out():
    requests, tiers = tables(SOME)
    plan = new_plan(3)
    perform(requests, tiers, plan, int(Event.SUSPEND), 1, 0, 0)
    perform(requests, tiers, plan, int(Event.GROW), 0, 1, SELF)
    perform(requests, tiers, plan, int(Event.SCHEDULE), 0, 1, SELF)
    perform(requests, tiers, plan, int(Event.RECOMPUTE_PAUSE), 1, 0, 0)
    assert columns(plan) == [
        (Event.SUSPEND, 1, 0, 0),
        (Event.GROW, 0, 1, SELF),
        (Event.SCHEDULE, 0, 1, SELF),
        (Event.RECOMPUTE_PAUSE, 1, 0, 0),
    ]
    assert plan.scheduled.tolist() == [1, 0, 0]
    assert plan.given_up.tolist() == [0, 1, 0]
    assert tiers.free[GPU] == 1 - 1 + 3  # one page was free, one is taken, three come back


def test_an_illegal_operation_changes_neither_the_counts_nor_the_plan():
    requests, tiers = tables(SOME)
    plan = new_plan(3)
    before = rows_of(requests), counts_of(tiers)
    with pytest.raises(IllegalTransition):
        perform(requests, tiers, plan, int(Event.SUSPEND), 2, 0, 0)
    assert (rows_of(requests), counts_of(tiers)) == before
    assert not any(column.any() for column in plan)


def test_a_plan_that_is_full_refuses_another_operation_before_it_is_carried_out():
    requests, tiers = tables(SOME)
    plan = new_plan(3)
    for _ in range(len(plan.event)):
        perform(requests, tiers, plan, int(Event.SCHEDULE), 0, 1, SELF)
    with pytest.raises(OverflowError, match="gives up the same ones"):
        perform(requests, tiers, plan, int(Event.SUSPEND), 1, 0, 0)
    assert requests.phase[1] == Phase.ACTIVE
    assert plan.operations[0] == len(plan.event)
    assert not plan.given_up.any()


def test_clearing_forgets_the_pass_and_keeps_counting_rules():
    requests, tiers = tables(Situation(4, 2, [decode(1), suspended_decode(1, 1)]))
    plan = new_plan(2)
    perform(requests, tiers, plan, int(Event.SCHEDULE), 0, 1, SELF)
    perform(requests, tiers, plan, int(Event.RECOMPUTE_PAUSE), 1, 0, 0)
    plan.fired[Rule.H5_STOP] += 2
    clear(plan, Limits(1, 0, 5, 6))
    assert columns(plan) == []
    assert plan.scheduled.tolist() == plan.given_up.tolist() == [0, 0]
    assert plan.fired[Rule.H5_STOP] == 2
    assert plan.left.tolist() == [5, 6]


def test_every_rule_has_a_name_of_its_own():
    assert len({rule.label for rule in Rule}) == len(Rule)
    assert Rule.H2_SUSPEND_NEWEST_ACTIVE.label == "H2 suspend newest active"
    assert Rule.CHUNK_FITS.label == "chunk fits"
