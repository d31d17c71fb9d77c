"""The properties: each is a sentence that can be false, and ``facts`` says of each what its predicate says."""

from __future__ import annotations

from pathlib import Path

import pytest
import steps
from situations import Row, Situation, decode, interpreted, rows_of, suspended_decode, tables, waiting

from stallproof.bounds import Bounds
from stallproof.claims import Kind
from stallproof.lifecycle import Event, Phase
from stallproof.limits import UNLIMITED, Limits
from stallproof.model import Kind as MoveKind
from stallproof.model import LifecycleModel, Move
from stallproof.policies import RESIDENT_FIRST
from stallproof.properties import NEEDS_HOST_TIER, PROPERTIES, facts
from stallproof.requests import NOBODY, copy_requests
from stallproof.tiers import GPU, HOST, copy_tiers
from stallproof.witness import new_step, replay

NAMES = [claim.name for claim in PROPERTIES]
ALWAYS = [claim.name for claim in PROPERTIES if claim.kind is Kind.ALWAYS]
SEEDS = list(range(600))


def names_of(bits):
    return {name for bit, name in enumerate(NAMES) if bits >> bit & 1}


def step_over(situation):
    """A step of the environment that leaves ``situation`` as it is."""
    step = new_step(len(situation.rows), situation.gpu, situation.host, situation.page_tokens, Limits(situation.chunk))
    requests, tiers = tables(situation)
    for table, counts in ((step.before, step.tiers_before), (step.after, step.tiers)):
        copy_requests(requests, table)
        copy_tiers(tiers, counts)
    step.legal[0] = 1
    step.settles[0] = NOBODY
    step.plan.left[:] = UNLIMITED
    return step


def test_names_and_sentences_are_there_and_all_different():
    assert len(set(NAMES)) == len(NAMES)
    sentences = [claim.sentence for claim in PROPERTIES]
    assert all(sentence.strip() for sentence in sentences)
    assert len(set(sentences)) == len(sentences)


def test_only_known_properties_need_a_host_tier_and_each_of_them_guards_against_vacuity():
    kinds = {claim.name: claim.kind for claim in PROPERTIES}
    assert {kinds[name] for name in NEEDS_HOST_TIER} == {Kind.SOMETIMES}


def test_facts_say_what_the_predicates_of_the_table_say_bit_by_bit():
    answers = interpreted(Path(steps.__file__), SEEDS)
    assert [spelled_out for spelled_out, _ in answers] == [of_predicates for _, of_predicates in answers]
    bits = [spelled_out for spelled_out, _ in answers]
    for bit, name in enumerate(NAMES):
        seen = {value >> bit & 1 for value in bits}
        assert seen == {0, 1}, f"the steps tell nothing about {name}"
    assert max(bits) < 1 << len(NAMES)


def test_facts_are_the_same_compiled_and_interpreted():
    answers = interpreted(Path(steps.__file__), SEEDS)
    assert [facts(steps.random_step(seed)) for seed in SEEDS] == [spelled_out for spelled_out, _ in answers]


# ---- A step for each always-property in which that sentence alone is false -------------------------

CALM = Situation(8, 4, [decode(2, 2), suspended_decode(1, 1), decode(2, 2), waiting(2)])
"""8 GPU pages, 5 taken; 4 on the host, 1 taken. R0 and R2 are active decodes."""

HARMLESS = {
    "oldest-finishes",
    "sometimes-suspends",
    "sometimes-resumes",
    "sometimes-prefill-preempted",
    "sometimes-recompute-pauses-active",
    "sometimes-recompute-pauses-suspended",
    "sometimes-lower-priority-waits",
    "sometimes-loads",
}


def operate(step, *operations):
    for k, (event, r) in enumerate(operations):
        step.plan.event[k], step.plan.request[k] = event, r
    step.plan.operations[0] = len(operations)


def note(step, event=Event.RECOMPUTE_PAUSE, victim=2, requester=0, **changed):
    """A flawless note: 2 pages missing, 1 available, 3 after the victim is gone."""
    fields = {"phase": Phase.ACTIVE, "copying": 0, "missing": 2, "available": 1, "available_after": 3, "reachable": 3}
    for name, value in {**fields, "event": event, "victim": victim, "requester": requester, **changed}.items():
        getattr(step.give_ups, name)[0] = value
    step.give_ups.number[0] = 1


def a_page_is_lost(step):
    step.tiers.free[GPU] -= 1


def a_held_page_is_miscounted(step):
    step.tiers.held[HOST] += 1


def an_active_request_has_a_page_too_many(step):
    step.after.gpu_pages[0] += 1
    step.tiers.free[GPU] -= 1


def an_active_request_has_a_page_on_the_host(step):
    step.after.gpu_pages[0] -= 1
    step.after.host_pages[0] += 1
    step.tiers.free[:] += 1, -1


def a_waiting_request_holds_a_page(step):
    step.after.gpu_pages[3] += 1
    step.tiers.free[GPU] -= 1


def the_plan_does_not_lead_there(step):
    step.legal[0] = 0


def given_up_and_scheduled(step):
    step.is_pass[0] = 1
    operate(step, (Event.SCHEDULE, 2))
    step.plan.scheduled[2], step.plan.given_up[2] = 1, 1
    step.after.computed[2] += 1
    step.after.gpu_pages[2] += 1
    step.tiers.free[GPU] -= 1


def admitted_after_its_recompute_pause(step):
    operate(step, (Event.RECOMPUTE_PAUSE, 2), (Event.ADMIT, 2))


def an_older_victim(step):
    note(step, victim=0, requester=2)


def suspended_twice(step):
    operate(step, (Event.SUSPEND, 2), (Event.RESUME, 2), (Event.SUSPEND, 2))


def a_victim_that_brings_nothing(step):
    note(step, available_after=1)


def a_suspended_victim_before_an_active_one(step):
    note(step, victim=1, phase=Phase.SUSPENDED, active_passed_over=1)


def a_victim_for_one_that_fitted(step):
    note(step, missing=1, available=1)


def a_victim_in_vain(step):
    note(step, missing=4)


def a_decode_suspended_for_a_prefill(step):
    step.before.decoding[0] = 0
    note(step, event=Event.SUSPEND)


def a_known_token_is_lost(step):
    step.after.tokens[2] -= 1


def an_output_gets_shorter(step):
    step.is_pass[0] = 1
    step.plan.scheduled[0], step.after.computed[0] = 1, 3
    step.after.gpu_pages[0] += 1
    step.tiers.free[GPU] -= 1
    operate(step, (Event.SCHEDULE, 0))
    step.after.output_left[0] -= 1  # and no token more


def a_replay_from_the_middle(step):
    step.before.phase[3] = step.after.phase[3] = Phase.RECOMPUTE_PAUSED
    step.after.computed[3] = 1


def scheduled_without_the_page(step):
    step.is_pass[0] = 1
    step.plan.scheduled[0] = 1  # its third token, and it has two pages
    operate(step, (Event.SCHEDULE, 0))


def a_request_that_can_never_fit(step):
    step.after.output_left[3] = 8  # 2 + 8 - 1 = 9 tokens of a page each, and the GPU has 8


def a_lower_priority_is_served_and_a_higher_one_is_not(step):
    scheduled_with_its_page(step, 2)
    step.before.priority[2:] = step.after.priority[2:] = 1


def a_fence_falls_before_the_copy_is_done(step):
    step.tiers_before.fenced[GPU] = 1


def scheduled_while_its_pages_are_on_their_way(step):
    scheduled_with_its_page(step, 0)
    step.after.copying[0] = step.before.copying[0] = 1
    step.tiers_before.fenced[HOST] = step.tiers.fenced[HOST] = 1
    step.tiers.free[HOST] -= 1


def more_is_scheduled_than_a_pass_may(step):
    scheduled_with_its_page(step, 0)
    return step._replace(limits=step.limits._replace(tokens=0))


def a_victim_whose_pages_are_being_copied(step):
    note(step, copying=1)


def a_victim_that_has_generated_its_last_token(step):
    note(step)
    step.before.output_left[2] = step.after.output_left[2] = 0


def one_finishes_twice(step):
    step.after.phase[0] = Phase.FINISHED
    step.tiers.free[GPU] += step.after.gpu_pages[0]
    step.after.gpu_pages[0] = 0
    operate(step, (Event.FINISH, 0), (Event.CANCEL, 0))


def scheduled_with_its_page(step, r):
    """Token by token: R0 and R2 have two pages and compute the third."""
    step.is_pass[0] = 1
    operate(step, (Event.SCHEDULE, r))
    step.plan.scheduled[r] = 1
    step.after.computed[r] += 1
    step.after.gpu_pages[r] += 1
    step.tiers.free[GPU] -= 1


FALSE = [
    ("no-priority-inversion", a_lower_priority_is_served_and_a_higher_one_is_not),
    ("copy-fence", a_fence_falls_before_the_copy_is_done),
    ("resume-complete", scheduled_while_its_pages_are_on_their_way),
    ("terminal-releases-once", one_finishes_twice),
    ("limits-kept", more_is_scheduled_than_a_pass_may),
    ("victim-not-copying", a_victim_whose_pages_are_being_copied),
    ("victim-unfinished", a_victim_that_has_generated_its_last_token),
    ("page-conservation", a_page_is_lost),
    ("page-conservation", a_held_page_is_miscounted),
    ("phase-residency", an_active_request_has_a_page_too_many),
    ("phase-residency", an_active_request_has_a_page_on_the_host),
    ("phase-residency", a_waiting_request_holds_a_page),
    ("legal-transition", the_plan_does_not_lead_there),
    ("lists-disjoint", given_up_and_scheduled),
    ("lists-disjoint", admitted_after_its_recompute_pause),
    ("victim-behind-requester", an_older_victim),
    ("victim-once-per-pass", suspended_twice),
    ("victim-makes-room", a_victim_that_brings_nothing),
    ("active-victim-first", a_suspended_victim_before_an_active_one),
    ("only-when-needed", a_victim_for_one_that_fitted),
    ("only-when-needed", a_victim_in_vain),
    ("decode-not-suspended-for-context", a_decode_suspended_for_a_prefill),
    ("tokens-preserved", a_known_token_is_lost),
    ("tokens-preserved", an_output_gets_shorter),
    ("replay-from-zero", a_replay_from_the_middle),
    ("scheduled-has-pages", scheduled_without_the_page),
    ("infeasible-refused", a_request_that_can_never_fit),
]


def test_of_a_step_in_which_nothing_happens_no_property_but_patience_is_false():
    assert names_of(facts(step_over(CALM))) == {"oldest-finishes"}
    flawless = step_over(CALM)
    note(flawless)
    assert names_of(facts(flawless)) == {"oldest-finishes", "sometimes-recompute-pauses-active"}


@pytest.mark.parametrize(("name", "spoil"), FALSE, ids=[spoil.__name__ for _, spoil in FALSE])
def test_exactly_the_sentence_that_was_made_false_is_found_false(name, spoil):
    step = step_over(CALM)
    step = spoil(step) or step
    assert names_of(facts(step)) - HARMLESS == {name}


def test_a_suspension_without_a_lower_tier_is_found():
    step = step_over(Situation(4, 0, [decode(2, 2), decode(1, 2)]))
    operate(step, (Event.SUSPEND, 1))
    assert names_of(facts(step)) & set(ALWAYS) == {"no-suspension-without-lower-tier"}


def test_every_always_property_has_a_step_that_makes_it_false():
    assert {name for name, _ in FALSE} | {"no-suspension-without-lower-tier"} == set(ALWAYS)


# ---- The others -----------------------------------------------------------------------------------


def test_a_pass_that_decides_nothing_over_live_requests_is_dead():
    step = step_over(CALM)
    step.is_pass[0] = 1
    assert names_of(facts(step)) == {"no-dead-end", "oldest-finishes"}


def test_a_pass_without_requests_is_neither_dead_nor_spinning():
    step = step_over(Situation(4, 2, [Row(), Row()]))
    step.is_pass[0] = 1
    assert names_of(facts(step)) == set()


def test_a_pass_that_is_busy_but_schedules_no_token_spins():
    step = step_over(CALM)
    step.is_pass[0] = 1
    operate(step, (Event.RESUME, 1), (Event.SUSPEND, 1))
    assert names_of(facts(step)) == {"no-livelock", "oldest-finishes", "sometimes-suspends", "sometimes-resumes"}


def test_a_pass_that_computes_a_token_does_not_spin():
    step = step_over(Situation(8, 4, [decode(2, 2)]))
    model = LifecycleModel(RESIDENT_FIRST, Bounds(live=1, gpu_pages=8, host_pages=4))
    bits = model.run(step, Move(MoveKind.PASS))
    assert rows_of(step.after)[0].tokens == 4
    assert names_of(bits) == {"oldest-finishes"}


def test_the_oldest_request_fulfils_its_claim_by_finishing():
    step = step_over(CALM)
    operate(step, (Event.FINISH, 0))
    step.after.phase[0] = Phase.FINISHED
    step.after.gpu_pages[0] = 0
    step.tiers.free[GPU] += 2
    assert names_of(facts(step)) == set()


def test_a_full_host_is_seen_and_no_host_is_not_full():
    full = step_over(Situation(4, 1, [suspended_decode(1, 1)]))
    assert "sometimes-host-full" in names_of(facts(full))
    none = step_over(Situation(4, 0, [decode(1)]))
    assert "sometimes-host-full" not in names_of(facts(none))


@pytest.mark.parametrize(
    ("phase", "decoding", "seen"),
    [
        (Phase.ACTIVE, 1, {"sometimes-recompute-pauses-active"}),
        (Phase.SUSPENDED, 1, {"sometimes-recompute-pauses-suspended"}),
        (Phase.ACTIVE, 0, {"sometimes-recompute-pauses-active", "sometimes-prefill-preempted"}),
    ],
)
def test_what_sometimes_happens_is_seen_by_the_victims_phase_and_its_progress(phase, decoding, seen):
    step = step_over(CALM)
    step.before.decoding[2] = decoding
    note(step, phase=phase)
    assert names_of(facts(step)) == {"oldest-finishes", *seen}


# ---- The witness: what a plan did, replayed --------------------------------------------------------


def witnessed(situation, *operations, after=None):
    """A pass that planned ``operations`` (event, request, amount, requester), replayed from ``situation``."""
    step = step_over(situation)
    for k, operation in enumerate(operations):
        for column, value in zip(step.plan[1:5], operation, strict=True):
            column[k] = value
    step.plan.operations[0] = len(operations)
    if after is not None:
        requests, _ = tables(situation._replace(rows=after))
        copy_requests(requests, step.after)
    replay(step)
    return step


PAUSED = [waiting(2), Row(Phase.RECOMPUTE_PAUSED, 0, 4, 1), suspended_decode(0, 1)]
FULL = Situation(3, 1, [waiting(2), decode(3), suspended_decode(0, 1)])


def test_the_witness_notes_what_was_true_when_the_victim_was_taken():
    """R0 lacks 2 of a full GPU. R1's loss makes 3 available; all candidates together bring 3."""
    step = witnessed(FULL, (Event.RECOMPUTE_PAUSE, 1, 0, 0), after=PAUSED)
    notes = {name: int(column[0]) for name, column in step.give_ups._asdict().items()}
    assert notes == {
        "number": 1,
        "event": Event.RECOMPUTE_PAUSE,
        "victim": 1,
        "requester": 0,
        "phase": Phase.ACTIVE,
        "copying": 0,
        "missing": 2,
        "available": 0,
        "available_after": 3,
        "reachable": 3,
        "active_passed_over": 0,
    }
    assert step.legal[0] == 1


def test_the_witness_sees_an_active_candidate_passed_over():
    step = witnessed(FULL, (Event.RECOMPUTE_PAUSE, 2, 0, 0))
    assert step.give_ups.active_passed_over[0] == 1


def test_the_witness_finds_an_illegal_operation_and_one_that_leads_elsewhere():
    assert witnessed(FULL, (Event.RESUME, 1, 0, 0)).legal[0] == 0
    elsewhere = [
        [waiting(2), *FULL.rows[1:2], PAUSED[2]],
        [PAUSED[0]._replace(gpu=1), *PAUSED[1:]],
        [*PAUSED[:2], suspended_decode(0, 0)],
    ]
    for after in elsewhere:  # another phase, a GPU page, a host page
        assert witnessed(FULL, (Event.RECOMPUTE_PAUSE, 1, 0, 0), after=after).legal[0] == 0


def test_an_operation_that_a_request_asks_for_itself_is_no_victim():
    step = witnessed(FULL, (Event.SUSPEND, 1, 0, -2))
    assert step.give_ups.number[0] == 0
