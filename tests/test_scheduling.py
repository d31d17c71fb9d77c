"""The pass: hand-made situations with the reason for every decision, and its interpreted twin.

A1 to A10 are the scenarios of ``trtllm-facts.md``, appendix A. A page holds one token unless said
otherwise. Where a scenario's request would need more pages than the GPU has, or drafts, which this
project does not model, the numbers are changed to the nearest that do not, and the docstring says so.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import situations as twin
from hypothesis import given
from hypothesis import strategies as st
from situations import (
    Row,
    Situation,
    copied,
    decide,
    decode,
    passes,
    prefill,
    replaying,
    rows_of,
    seeded_situation,
    suspended_decode,
    suspended_prefill,
    tables,
    waiting,
)

from stallproof.bounds import Bounds
from stallproof.lifecycle import Event, Phase
from stallproof.limits import Limits
from stallproof.model import Kind, LifecycleModel, Move
from stallproof.plan import SELF, new_plan
from stallproof.policies import POLICIES, RESIDENT_FIRST
from stallproof.room import make_room
from stallproof.scheduling import schedule
from stallproof.tiers import GPU, apply

OURS, PUBLISHED = "resident-first", "helix-published"
LADDERS = (OURS, PUBLISHED)
BOTH = pytest.mark.parametrize("policy", LADDERS)
EVERY = pytest.mark.parametrize("policy", POLICIES)
A, S, W, R = Phase.ACTIVE, Phase.SUSPENDED, Phase.WAITING, Phase.RECOMPUTE_PAUSED


def phases(decided):
    """After the pass was decided, before its tokens are computed."""
    return [Phase(row.phase) for row in decided.decided]


def pages(decided):
    return [(row.gpu, row.host) for row in decided.decided]


def given_up(decided):
    """(event, victim, requester), in order."""
    return [(event, r, by) for event, r, _, by in decided.events if event in ("suspend", "recompute-pause")]


# ---- What is easy ---------------------------------------------------------------------------------


@BOTH
def test_where_everything_fits_everybody_is_scheduled_decodes_first(policy):
    """6 pages, 3 used. The prefill asks for its chunk of 2, the decode for 1: 6 in all. Decodes go first."""
    [decided] = passes(policy, Situation(6, 0, [prefill(1, 2, left=3), decode(2, left=3)]))
    assert decided.scheduled == [2, 1]
    done = [(event, r) for event, r, _, _ in decided.events]
    assert done == [("grow", 1), ("schedule", 1), ("grow", 0), ("schedule", 0)]
    assert decided.generated == 2  # the decode's next token, and the first one of the prefill that is complete
    assert decided.rows == [Row(A, 1, 4, 2, 3, 3)] * 2


@BOTH
def test_a_prompt_is_computed_in_chunks_and_only_the_last_yields_a_token(policy):
    """A prompt of 5 in chunks of 2: 2, 4, 5 tokens are computed, and the third pass makes it a decode."""
    after = passes(policy, Situation(8, 0, [waiting(5, left=2)]), 3)
    assert [decided.rows[0].computed for decided in after] == [2, 4, 5]
    assert [decided.generated for decided in after] == [0, 0, 1]
    assert after[2].rows[0] == Row(A, 1, 6, 1, 5, 5)


@BOTH
def test_the_last_token_is_never_computed_and_its_request_holds_nothing_afterwards(policy):
    """A prompt of 2 with an output of 1 peaks at 2 pages: that fits 2, and all of them are free again."""
    [decided] = passes(policy, Situation(2, 0, [waiting(2, left=1)]))
    assert [event for event, *_ in decided.events] == ["admit", "schedule", "finish"]
    assert decided.rows[0].phase == Phase.FINISHED
    assert decided.tiers == [[2, 0], [0, 0]]


@BOTH
def test_a_replay_starts_at_zero_with_prompt_and_generated_tokens(policy):
    """Recompute-paused with 5 tokens: admitted with the 3 pages of its first chunk, it computes positions 0 to 2."""
    [decided] = passes(policy, Situation(8, 0, [replaying(5, left=2)], chunk=3))
    assert decided.rows[0] == Row(A, 0, 5, 2, 3, 3)


@BOTH
def test_a_token_in_a_page_that_has_room_needs_no_page(policy):
    """Pages of 2 tokens, 3 computed in 2 pages of the GPU's 2: the fourth token fits."""
    row = Row(A, 1, 4, 1, 3, 2)
    [decided] = passes(policy, Situation(2, 0, [row], page_tokens=2))
    assert [event for event, *_ in decided.events] == ["schedule", "finish"]


@BOTH
def test_a_request_resumes_with_its_host_copies_released(policy):
    """1 page on the GPU, 2 on the host, 4 free: resume takes 2, growth 1. The host is empty afterwards."""
    [decided] = passes(policy, Situation(5, 2, [suspended_decode(1, 2, left=3)]))
    assert decided.events == [("resume", 0, 2, SELF), ("grow", 0, 1, SELF), ("schedule", 0, 1, SELF)]
    assert pages(decided) == [(4, 0)]
    assert decided.tiers == [[1, 2], [0, 0]]


def test_held_pages_leave_oldest_suspension_first_and_no_more_than_needed():
    """3 of 5 needed: none is free. The suspension of R2 is the oldest: its 2 pages leave, then 1 of R1's 2."""
    rows = [waiting(3), suspended_decode(2, 0, suspension=2), suspended_decode(2, 0, suspension=1), decode(1)]
    requests, tiers = tables(Situation(5, 9, rows))
    plan = new_plan(4)
    assert make_room(requests, tiers, plan, 0, 3)
    assert plan.operations[0] == 2
    assert plan.event[:2].tolist() == [Event.MIGRATE] * 2
    assert plan.request[:2].tolist() == [2, 1]
    assert plan.amount[:2].tolist() == [2, 1]
    assert plan.requester[:2].tolist() == [0, 0]
    assert tiers.free.tolist() == [3, 6]
    assert [(row.gpu, row.host) for row in rows_of(requests)] == [(0, 0), (1, 1), (0, 2), (1, 0)]


def test_room_that_cannot_be_made_moves_no_page_at_all():
    """3 held pages, but the host has room for 1: 3 are asked for, so not even that one moves."""
    requests, tiers = tables(Situation(4, 1, [waiting(3), suspended_decode(3, 0), decode(1)]))
    before = rows_of(requests), tiers.free.tolist()
    plan = new_plan(3)
    assert not make_room(requests, tiers, plan, 0, 3)
    assert (rows_of(requests), tiers.free.tolist()) == before
    assert plan.operations[0] == 0


def test_a_decode_suspends_the_newest_active_request_behind_it_and_that_ends_its_phase():
    """GPU full. R0 needs a page: R2, the newest, is suspended (H2), and one of its pages leaves for the host.

    The phase now ends before R2; R1, still inside, needs a page too: 1 more of R2's leaves. H1 twice.
    """
    for policy in LADDERS:
        [decided] = passes(policy, Situation(6, 2, [decode(2, 3), decode(2, 3), decode(2, 3)]))
        assert given_up(decided) == [("suspend", 2, 0)]
        assert [r for event, r, *_ in decided.events if event == "migrate"] == [2, 2]
        assert phases(decided) == [A, A, S]
        assert decided.scheduled == [1, 1, 0]
        assert decided.fired.count("H1_DECODE_FITS") == 1  # R1; R0's second try is not counted
        assert pages(decided) == [(3, 0), (3, 0), (0, 2)]


def test_whoever_stands_behind_a_suspended_request_is_not_tried_as_a_decode():
    """GPU 2 + 3 of 5. R0 suspends R1 for its page. Two more of R1's could leave for R2, but the end moved to R1."""
    for policy in LADDERS:
        [decided] = passes(policy, Situation(5, 4, [decode(2, 3), decode(3), suspended_decode(0, 1)]))
        assert given_up(decided) == [("suspend", 1, 0)]
        assert decided.scheduled == [1, 0, 0]
        assert phases(decided) == [A, S, S]
        assert decided.tiers == [[0, 2], [2, 2]]


def test_a_decode_that_suspends_itself_ends_the_phase_for_those_behind_it():
    """GPU 1 + 3 of 4. R1 needs a page, R2's loss brings none: it suspends itself (H4), and R2 is not tried (H5).

    Else R2 would take two of R1's pages. Now the prefill R0 does.
    """
    [decided] = passes(OURS, Situation(4, 4, [prefill(1, 2), decode(3), suspended_decode(0, 1)]))
    assert given_up(decided) == [("suspend", 1, SELF)]
    assert decided.scheduled == [2, 0, 0]
    assert pages(decided) == [(3, 0), (1, 2), (0, 1)]


@BOTH
def test_a_request_that_this_pass_gave_up_is_not_served_by_it(policy):
    """R0 needs 1 page and R1 is paused for it, which brings 3. The 2 that are left would do for R1's first chunk."""
    [decided] = passes(policy, Situation(5, 0, [decode(2, 3), decode(3)]))
    assert given_up(decided) == [("recompute-pause", 1, 0)]
    assert decided.scheduled == [1, 0]
    assert phases(decided) == [A, R]
    assert decided.tiers[0] == [2, 0]


@BOTH
def test_of_two_victims_that_would_help_the_active_one_is_taken(policy):
    """GPU 1 + 2 + 1 of 4, host full: R2's loss would bring its GPU page, and it is newer. R1 is active."""
    [decided] = passes(policy, Situation(4, 1, [prefill(1, 2), prefill(2, 1), suspended_decode(1, 1)]))
    assert given_up(decided) == [("recompute-pause", 1, 0)]


# ---- Scenarios A1 to A10 --------------------------------------------------------------------------


@BOTH
def test_a1_a_prefill_takes_the_pages_of_a_suspended_decode_behind_it(policy):
    """A1 in pages of two tokens, so that R1's four pages hold its next token: R0 has 1 page and wants 2.

    GPU 1 + 3 of 4, host full. R1's resume needs a free page: none. R0 sees no active candidate, and
    R1 suspended (K4): its loss brings 3. Next pass R0 grows.
    """
    rows = [Row(A, 0, 6, 1, 2, 1), Row(S, 1, 8, 1, 7, 3, 1, 1)]
    first, second = passes(policy, Situation(4, 1, rows, page_tokens=2, chunk=4), 2)
    assert given_up(first) == [("recompute-pause", 1, 0)]
    assert first.scheduled == [0, 0]  # K6: the freed pages are R0's next pass
    assert "K4_PAUSE_SUSPENDED" in first.fired
    assert second.scheduled[0] == 4
    assert second.rows[0].computed == 6


A2 = Situation(3, 1, [prefill(1, 2), decode(2), suspended_decode(0, 1)])
"""A2 without drafts: R1 wants 1 page, R2 is all on the host and fills it."""


def test_a2_each_pass_gives_up_what_helps_and_nobody_twice():
    """R1's growth: R2's loss brings R1 nothing, so nobody is given up for it (R7); it suspends itself (H4).

    R0 wants 2. Held are R1's 2 pages, the host is full: 0 available. R2's loss frees the host page, so one
    held page can leave: R2, the newest that helps, is paused. Next pass 1 is available, R1's loss makes it 2.
    """
    first, second, third = passes(OURS, A2, 3)
    assert given_up(first) == [("suspend", 1, SELF), ("recompute-pause", 2, 0)]
    assert given_up(second) == [("recompute-pause", 1, 0)]
    assert third.scheduled[0] == 2


def test_a2_published_rules_take_a_victim_for_nothing_and_then_go_round():
    """R1 pauses R2 (H3) though that brings no GPU page, and suspends itself. R0 skips R1, given up in this pass."""
    first, second, third = passes(PUBLISHED, A2, 3)
    assert given_up(first) == [("recompute-pause", 2, 1), ("suspend", 1, SELF)]
    assert given_up(second) == given_up(third) == [("suspend", 1, SELF)]
    assert second.rows == third.rows
    assert not any(first.scheduled + second.scheduled + third.scheduled)


@BOTH
def test_a3_the_active_victim_is_taken_although_a_suspended_one_is_newer(policy):
    """GPU 1 + 3 of 4. R2's two pages are on the host: its loss frees no GPU page. R1's frees 3."""
    [decided] = passes(policy, Situation(4, 4, [prefill(1, 2), prefill(3, 1), suspended_decode(0, 2)]))
    assert given_up(decided) == [("recompute-pause", 1, 0)]
    assert phases(decided) == [A, R, S]
    assert "K3_PAUSE_ACTIVE" in decided.fired


@BOTH
def test_a4_a_suspended_prefill_that_cannot_resume_takes_a_victim(policy):
    """A4 with R1 on 3 pages of 4, so that its growth fits the GPU: R0 needs 2 host pages back and 1 more; 1 is free."""
    first, second = passes(policy, Situation(4, 2, [suspended_prefill(0, 2, 1), prefill(3, 1)]), 2)
    assert given_up(first) == [("recompute-pause", 1, 0)]
    assert second.events[:3] == [("resume", 0, 2, SELF), ("grow", 0, 1, SELF), ("schedule", 0, 1, SELF)]


A5 = Situation(4, 4, [Row(A, 0, 4, 1, 3, 2), Row(A, 0, 5, 1, 4, 2), Row(S, 1, 5, 1, 4, 0, 2, 1)], 2)
"""A5 in pages of two tokens, where R0 needs no page: R1 wants 1 of 0 free, R2 has 2 on the host."""


def test_a5_nobody_is_given_up_whose_loss_frees_no_gpu_page():
    """R0 runs and will finish. R1 waits: R2's loss would free host pages only."""
    first, second = passes(OURS, A5, 2)
    assert given_up(first) == []
    assert first.scheduled == [1, 0, 0]
    assert first.rows[0].phase == Phase.FINISHED
    assert first.rows[2] == A5.rows[2]
    assert second.scheduled[1] == 1


def test_a5_published_rules_give_up_a_request_that_is_all_on_the_host():
    """K4 without residency: the GPU has no free page before and none after."""
    requests, tiers = tables(A5)
    plan = new_plan(3)
    schedule(requests, tiers, POLICIES[PUBLISHED].rules, Limits(2), plan)
    assert requests.phase.tolist() == [A, A, R]
    assert tiers.free[GPU] == 0


@BOTH
def test_a6_without_a_lower_tier_the_newest_is_paused_and_nobody_suspended(policy):
    """4 of 4 pages, no host. R0 pauses R2 (1 page) and runs. R1 needs a page, has nobody behind it, and just stays."""
    [decided] = passes(policy, Situation(4, 0, [decode(2, 2), decode(1, 2), decode(1, 2)]))
    assert given_up(decided) == [("recompute-pause", 2, 0)]
    assert decided.scheduled == [1, 0, 0]
    assert phases(decided) == [A, A, R]


@BOTH
def test_a7_pages_freed_for_one_request_are_not_taken_by_the_next_in_the_same_pass(policy):
    """R0 wants 3, 1 is free: R1 (3 pages) is paused. R2 could take 2 of the 4 now, but the phase ends (K6)."""
    first, second = passes(policy, Situation(4, 0, [waiting(3, 2), prefill(3, 1), waiting(2)], chunk=3), 2)
    assert given_up(first) == [("recompute-pause", 1, 0)]
    assert first.scheduled == [0, 0, 0]
    assert phases(first) == [W, R, W]
    assert second.scheduled[0] == 3


@BOTH
def test_a8_a_first_chunk_that_does_not_fit_leaves_the_request_with_no_page(policy):
    """R1 takes the third page. R0 wants 3 and 1 is free: it holds none of them, and waits."""
    [decided] = passes(policy, Situation(4, 0, [waiting(3), decode(2, 2)], chunk=3))
    assert decided.decided[0] == waiting(3)
    assert decided.scheduled == [0, 1]
    assert decided.tiers == [[1, 0], [0, 0]]


def test_a9_a_request_whose_peak_exceeds_the_gpu_is_refused_at_arrival():
    """2 pages: a prompt of 3 never fits; a prompt of 2 only with 1 token to generate, one of 1 with 2."""
    model = LifecycleModel(RESIDENT_FIRST, Bounds(live=2, gpu_pages=2, host_pages=4, max_prompt=3, max_output=3))
    moves = {Move.of_label(int(label)) for label in model.successors(model.initial_rows()).label}
    assert moves == {
        Move(Kind.PASS),
        *(Move(Kind.REFUSE, prompt=prompt, output=3) for prompt in (1, 2, 3)),
        Move(Kind.ARRIVE, prompt=1, output=2),
        Move(Kind.ARRIVE, prompt=2, output=1),
    }


A10 = Situation(4, 1, [prefill(1, 2), decode(3)])


def test_a10_a_decode_that_suspended_itself_is_promoted_and_the_prefill_grows():
    """R1's growth fails and nobody is behind it: it suspends itself. 1 page could leave for the host, R0 wants 2:
    R1's loss makes it 3, so the same pass pauses it (R2). Next pass R0 grows."""
    first, second = passes(OURS, A10, 2)
    assert given_up(first) == [("suspend", 1, SELF), ("recompute-pause", 1, 0)]
    assert "K4_PROMOTE" in first.fired
    assert second.scheduled[0] == 2


def test_a10_published_rules_go_round_without_a_token():
    """R1 suspends itself, R0 skips it as given up; next pass R1 resumes, for its pages never left, and repeats."""
    later = passes(PUBLISHED, A10, 4)[1:]
    assert [decided.events for decided in later] == [[("resume", 1, 0, SELF), ("suspend", 1, 0, SELF)]] * 3
    assert [decided.rows for decided in later] == [later[0].rows] * 3


# ---- One rule of resident-first at a time ---------------------------------------------------------


def test_r3_a_newer_decode_that_was_not_scheduled_is_no_shield():
    """No host, 4 of 4 pages: R1 needs a page, nobody is behind it. R0 wants 1: R1, an unscheduled decode, is taken."""
    rows = [prefill(1, 1), decode(3)]
    [ours] = passes(OURS, Situation(4, 0, rows))
    assert given_up(ours) == [("recompute-pause", 1, 0)]
    [published] = passes(PUBLISHED, Situation(4, 0, rows))
    assert published.events == []  # K1: a decode holds GPU pages, so nobody is given up; nothing at all happens


def test_r4_nobody_passes_a_blocked_request():
    """1 page is free. R0 wants 2 and has no candidate; R1 wants 1, which is there: only the published rules give it."""
    rows = [waiting(2), waiting(1)]
    older = decode(3, 3)  # holds 3, and takes the fourth
    [ours] = passes(OURS, Situation(5, 0, [older, *rows]))
    [published] = passes(PUBLISHED, Situation(5, 0, [older, *rows]))
    assert ours.scheduled == [1, 0, 0]
    assert published.scheduled == [1, 0, 1]


def test_r7_nobody_is_given_up_in_vain():
    """R0 takes the free page and has 2 of 3. R1 wants 3; R2, its one candidate, has 1: even so R1 cannot fit."""
    rows = [prefill(1, 1), waiting(3), prefill(1, 2)]
    [ours] = passes(OURS, Situation(3, 0, rows, chunk=3))
    [published] = passes(PUBLISHED, Situation(3, 0, rows, chunk=3))
    assert given_up(ours) == []
    assert "R7_NOBODY_IN_VAIN" in ours.fired
    assert given_up(published) == [("recompute-pause", 2, 1)]


def test_r8_a_request_resumes_only_if_it_can_run():
    """R0 takes the free page. R1 has its 2 pages on the GPU and needs a third; nobody is behind it, so it waits."""
    rows = [decode(1, 3), suspended_decode(2, 0)]
    [ours] = passes(OURS, Situation(4, 1, rows))
    [published] = passes(PUBLISHED, Situation(4, 1, rows))
    assert [event for event, r, *_ in ours.events if r == 1] == []
    assert [event for event, r, *_ in published.events if r == 1] == ["resume", "suspend"]


# ---- What a pass never does -----------------------------------------------------------------------

PASSES = 3
SEEDS = range(300)


@pytest.fixture(scope="module")
def answered():
    """Compiled answers, by policy and seed."""
    return {(policy, seed): passes(policy, seeded_situation(seed), PASSES) for policy in POLICIES for seed in SEEDS}


def test_compiled_and_interpreted_passes_decide_the_same_to_the_last_operation(answered):
    questions = [(policy, seeded_situation(seed), PASSES) for policy, seed in answered]
    assert twin.interpreted(Path(twin.__file__), questions) == json.loads(json.dumps(list(answered.values())))


def test_the_random_situations_meet_every_rule_of_both_policies(answered):
    """Else their agreement would say little. R4 and R7 are rules of resident-first alone.

    The situations have one priority, no limits, and copies that take no time; the explored graphs have the rest.
    """
    for policy, absent in ((OURS, set()), (PUBLISHED, {"R4_NO_BYPASS", "R7_NOBODY_IN_VAIN", "K4_PROMOTE"})):
        absent = absent | {"R9_NEXT_PRIORITY_WAITS", "LIMIT_REACHED", "R10_COPIES_MAKE_ROOM", "R10_LOADS"}
        fired = {rule for seed in SEEDS for decided in answered[policy, seed] for rule in decided.fired}
        assert set(twin.Rule.__members__) - fired == absent


@EVERY
@given(twin.situations())
def test_the_same_situation_gives_the_same_pass(policy, situation):
    assert passes(policy, situation, 2) == passes(policy, situation, 2)


@pytest.mark.parametrize("policy", [name for name in POLICIES if not POLICIES[name].reads_output_left])
@given(twin.situations(), st.data())
def test_a_pass_never_looks_at_how_much_a_request_may_still_generate_unless_its_policy_says_so(policy, situation, data):
    others = [row._replace(output_left=data.draw(st.integers(1, 99))) for row in situation.rows]
    plans = []
    for rows in (situation.rows, others):
        requests, tiers = tables(situation._replace(rows=rows))
        plan = new_plan(len(rows))
        schedule(requests, tiers, POLICIES[policy].rules, Limits(situation.chunk), plan)
        plans.append([column.tolist() for column in plan])
    assert plans[0] == plans[1]


@EVERY
@given(twin.situations())
def test_a_pass_replayed_operation_by_operation_leads_to_the_same_place(policy, situation):
    """The plan is the whole truth: whoever carries it out in order, from the same start, ends up where the pass did."""
    requests, tiers = tables(situation)
    replayed, replayed_tiers = copied(requests, tiers)
    decided = decide(requests, tiers, POLICIES[policy].rules, situation.chunk)
    codes = {event.label: int(event) for event in Event}
    for event, r, amount, _ in decided.events:
        apply(replayed, replayed_tiers, codes[event], r, amount)
    assert replayed_tiers.free.tolist() == tiers.free.tolist()
    assert replayed_tiers.held.tolist() == tiers.held.tolist()
    for column in ("phase", "gpu_pages", "host_pages"):
        assert np.array_equal(getattr(replayed, column), getattr(requests, column))


@BOTH
@given(twin.situations())
def test_a_pass_gives_up_at_most_one_request_in_its_context_phase_and_lists_nobody_twice(policy, situation):
    [decided] = passes(policy, situation)
    prefills = {r for r, row in enumerate(situation.rows) if not row.decoding}
    assert sum(by in prefills for _, _, by in given_up(decided)) <= 1
    assert not any(tokens and up for tokens, up in zip(decided.scheduled, decided.given_up, strict=True))
    assert len(given_up(decided)) == len({(event, r) for event, r, _ in given_up(decided)})
