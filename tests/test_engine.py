"""The engine as a library: requests in, passes, requests out; with pages and without."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stallproof.bounds import Bounds
from stallproof.claims import SAMPLE_EVERY, Checks
from stallproof.engine import Engine
from stallproof.errors import PageError, UnknownPolicy, UsageError
from stallproof.lifecycle import IllegalTransition, Phase
from stallproof.model import Kind, LifecycleModel, Move
from stallproof.outcomes import Refusal, Stall
from stallproof.packing import number_live, pack, unpack
from stallproof.pages import PageManager
from stallproof.policies import POLICIES, RESIDENT_FIRST, policy_named, victim
from stallproof.policies.interface import yes
from stallproof.tiers import GPU, peak_pages

TINY = {"gpu_pages": 4, "host_pages": 0, "page_tokens": 1, "chunk_tokens": 2}


def with_pages(gpu_pages: int = 4, host_pages: int = 0, page_tokens: int = 1, **options) -> Engine:
    """An engine whose pages exist."""
    pages = PageManager(gpu_pages, host_pages, page_tokens, device="cpu")
    options = {"chunk_tokens": 2, **options}
    return Engine(gpu_pages=gpu_pages, host_pages=host_pages, page_tokens=page_tokens, pages=pages, **options)


def drained(engine: Engine, most: int = 1000) -> list[int]:
    """The ids in the order in which they finished."""
    finished = []
    for _ in range(most):
        if not engine.live:
            return finished
        finished += engine.run_pass()
    raise AssertionError(f"{engine.live} requests are left after {most} passes")


def stalled(engine: Engine, most: int = 500) -> Stall:
    """The stall that passes run into."""
    for _ in range(most):
        try:
            engine.run_pass()
        except Stall as stall:
            return stall
    raise AssertionError(f"no stall in {most} passes")


# ---- Requests --------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: Engine(**TINY), with_pages], ids=["counts alone", "with pages"])
def test_one_request_from_arrival_to_its_end(make):
    """Prompt 3, output 2, chunks of 2. Pass 1: 2 tokens. Pass 2: the third, which yields one. Pass 3: another, done."""
    engine = make()
    assert engine.submit(3, 2) == 0
    assert (engine.live, engine.gpu_pages_used) == (1, 0)
    assert engine.run_pass() == []
    assert (engine.gpu_pages_used, engine.counts.tokens) == (2, 0)
    assert engine.run_pass() == []
    assert (engine.gpu_pages_used, engine.counts.tokens) == (3, 1)
    assert engine.run_pass() == [0]
    assert (engine.live, engine.gpu_pages_used, engine.counts.tokens) == (0, 0, 2)
    assert (engine.counts.passes, engine.counts.finished, engine.counts.peak_gpu_pages) == (3, 1, 4)


def test_a_request_that_can_never_fit_is_refused_with_the_reason():
    engine = Engine(**TINY)
    assert engine.submit(3, 3) == Refusal(5, 4)
    assert str(engine.submit(3, 3)) == "needs 5 pages at its longest, and the GPU has 4"
    assert engine.submit(3, 2) == 0  # a refusal takes no id
    assert engine.live == 1


@pytest.mark.parametrize(
    ("prompt", "output"), [(0, 1), (1, 0), (-1, 1), (1, -5), (10**30, 1), (1, 10**30), (2**63 - 1, 2**63 - 1)]
)
def test_lengths_without_sense_are_refused(prompt, output):
    engine = Engine(**TINY)
    with pytest.raises(UsageError, match="Each must be"):
        engine.submit(prompt, output)
    assert engine.live == 0


@pytest.mark.parametrize(
    ("sizes", "place"),
    [
        ({"gpu_pages": 0}, "--gpu-pages"), ({"host_pages": -1}, "--host-pages"), ({"page_tokens": 0}, "--page-tokens"),
        ({"chunk_tokens": 0}, "--chunk-tokens"), ({"gpu_pages": 10**30}, "--gpu-pages"), ({"gpu_pages": 2.5}, "--gpu-"),
        ({"page_tokens": 2**63 - 1}, "--page-tokens"), ({"checks": "some"}, "--checks"),
    ],
)  # fmt: skip
def test_sizes_without_sense_are_refused(sizes, place):
    with pytest.raises(UsageError, match=f"^{place}"):
        Engine(**sizes)


def test_a_policy_that_is_not_there_is_refused():
    with pytest.raises(UnknownPolicy):
        Engine(policy="nope")


def test_a_pass_over_nobody_does_nothing():
    engine = Engine(**TINY)
    assert engine.run_pass() == []
    assert engine.counts.passes == 1
    engine.submit(1, 1)
    assert engine.run_pass() == [0]
    assert engine.run_pass() == []
    assert engine.counts.finished == 1


def test_ids_are_stable_when_rows_close_up():
    engine = with_pages(gpu_pages=12)
    ids = [engine.submit(1, output) for output in (3, 1, 2)]
    assert ids == [0, 1, 2]
    assert engine.run_pass() == [1]
    assert engine.submit(2, 1) == 3
    assert engine.run_pass() == [2, 3]
    engine.cancel(0)
    assert engine.live == 0
    assert engine.counts.content_errors == 0


def test_a_cancelled_request_releases_everything_it_has_and_takes_no_part_any_more():
    engine = with_pages(gpu_pages=8, host_pages=2)
    ids = [engine.submit(2, 3) for _ in range(3)]
    engine.run_pass()
    assert engine.gpu_pages_used == 6
    engine.cancel(ids[1])
    assert engine.gpu_pages_used == 4
    assert engine.pages.pages_of(ids[1]) == (0, 0)
    engine.pages.check()
    assert drained(engine) == [ids[0], ids[2]]
    assert (engine.counts.cancelled, engine.counts.finished) == (1, 2)


@pytest.mark.parametrize("request_id", [-1, 1, 99])
def test_only_a_live_request_can_be_cancelled(request_id):
    engine = Engine(**TINY)
    engine.submit(1, 3)
    with pytest.raises(UsageError, match=f"request {request_id} is not live. It may have finished."):
        engine.cancel(request_id)
    engine.cancel(0)
    with pytest.raises(UsageError, match="request 0 is not live"):
        engine.cancel(0)
    assert engine.counts.cancelled == 1


def test_a_waiting_and_a_suspended_request_can_be_cancelled():
    """4 GPU pages, 2 host pages: R0 and R1 fill the GPU, R0's third token suspends R1, R2 waits."""
    engine = with_pages(gpu_pages=4, host_pages=2)
    for _ in range(3):
        engine.submit(2, 3)
    engine.run_pass()
    engine.run_pass()
    assert engine.counts.suspends == 1
    assert engine.pages.pages_of(1) == (1, 1)
    engine.cancel(1)
    engine.cancel(2)
    assert (engine.live, engine.gpu_pages_used) == (1, 3)
    assert engine.pages.host.free == 2
    engine.pages.check()
    assert drained(engine) == [0]


@pytest.mark.parametrize("requests", [64, 65, 200])
def test_the_table_grows_with_the_requests_and_forgets_nobody(requests):
    """Half of them are under way when the table has to grow."""
    engine = with_pages(gpu_pages=2 * requests, host_pages=3)
    ids = [engine.submit(1, 3) for _ in range(requests // 2)]
    engine.run_pass()
    used = engine.gpu_pages_used
    ids += [engine.submit(1, 2) for _ in range(requests - requests // 2)]
    assert ids == list(range(requests))
    assert (engine.live, engine.gpu_pages_used) == (requests, used)
    assert sorted(drained(engine)) == ids
    assert engine.counts.content_errors == 0
    assert engine.violations == []
    assert engine.counts.tokens == 3 * (requests // 2) + 2 * (requests - requests // 2)


# ---- What is checked -------------------------------------------------------------------------------


@victim
def oldest_row(requests, tiers, plan, requester, tokens):
    """Whoever arrived first, wherever it stands."""
    return 0


@victim
def newest_row(requests, tiers, plan, requester, tokens):
    """Whoever arrived last, even one that is still waiting, which the lifecycle forbids."""
    return len(requests.phase) - 1


UNFAIR = RESIDENT_FIRST.changed("unfair", "gives up the oldest", victim_to_pause_for_prefill=oldest_row)
ILLEGAL = RESIDENT_FIRST.changed(
    "illegal", "gives up who waits", victim_to_pause_for_prefill=newest_row, worth_giving_up=yes
)


def crowded(policy, **options) -> Engine:
    """Two requests of 4 pages at their longest on 4 pages: the second pass must give somebody up.

    R0 has 2 of 3 prompt tokens, R1 its whole prompt of 2. R0's chunk does not fit, and the unfair policy gives
    up R0 for R0 itself, which is not behind it.
    """
    engine = Engine(policy=policy, **TINY, **options)
    engine.submit(3, 2)
    engine.submit(2, 3)
    engine.run_pass()
    return engine


def test_a_violation_is_counted_and_told():
    told = []
    engine = crowded(UNFAIR, on_violation=told.append)
    assert told == []
    engine.run_pass()
    assert "victim-behind-requester" in [violation.property for violation in told]
    assert engine.violations == told
    violation = next(v for v in told if v.property == "victim-behind-requester")
    assert str(violation) == (
        "pass 2: victim-behind-requester is violated: "
        "Whoever is given up for another request has a lower priority, or the same and arrived after it."
    )


def test_a_violation_that_is_not_claimed_is_not_told():
    engine = crowded(replace(UNFAIR, unclaimed=frozenset({"victim-behind-requester"})))
    engine.run_pass()
    assert "victim-behind-requester" not in [violation.property for violation in engine.violations]


def test_without_checks_nothing_is_told():
    engine = crowded(UNFAIR, checks="off", on_violation=pytest.fail)
    engine.run_pass()
    assert engine.violations == []
    assert engine.counts.recompute_pauses == 1


def test_a_pass_that_asks_for_the_illegal_changes_nothing():
    """The victim is R2, which waits. The pass raises before a page has moved, and the counts agree with the pages."""
    pages = PageManager(4, 0, 1, device="cpu")
    engine = Engine(policy=ILLEGAL, pages=pages, **TINY)
    for prompt, output in ((3, 2), (2, 3), (1, 1)):
        engine.submit(prompt, output)
    with pytest.raises(IllegalTransition, match=r"request 2 is waiting: .*'recompute-pause'"):
        engine.run_pass()
    assert engine.gpu_pages_used == 0
    assert pages.pages_of(0) == (0, 0)
    engine.cancel(2)
    engine.cancel(1)
    assert drained(engine) == [0]
    assert engine.counts.content_errors == 0


@pytest.mark.parametrize(
    ("checks", "when"), [("full", list(range(1, 34))), (Checks.SAMPLE, [16, 32]), ("sample", [16, 32]), ("off", [])]
)
def test_contents_are_checked_as_often_as_asked(checks, when):
    """One request of 1 prompt and 40 output tokens: pass n looks at the n tokens there are by then."""
    assert SAMPLE_EVERY == 16
    engine = with_pages(gpu_pages=40, checks=checks)
    engine.submit(1, 40)
    for _ in range(33):
        engine.run_pass()
    assert engine.counts.content_checks == sum(when)
    assert engine.counts.content_errors == 0


def test_a_page_overwritten_behind_the_managers_back_is_found():
    """Token 1 of R0 becomes another number between two passes; the next look at R0 says which."""
    engine = with_pages(gpu_pages=8)
    engine.submit(3, 4)
    engine.run_pass()
    slot = engine.pages.slots([0], [1], [2])
    engine.pages.write_tokens(slot, engine.pages.read_tokens(slot) + 1)
    engine.run_pass()
    assert engine.counts.content_errors == 1
    assert engine.content_errors[0].startswith("pass 2: expected request 0, token 1, generation 0; found ")
    engine.run_pass()
    assert engine.counts.content_errors == 2  # it is still there


def test_a_token_of_another_request_is_found():
    """R1's token stands where R0's should: its stamp says so."""
    engine = with_pages(gpu_pages=8)
    engine.submit(2, 3)
    engine.submit(2, 3)
    engine.run_pass()
    here, there = (engine.pages.slots([request], [0], [1]) for request in (0, 1))
    engine.pages.write_tokens(here, engine.pages.read_tokens(there))
    engine.run_pass()
    assert engine.content_errors == [
        "pass 2: expected request 0, token 0, generation 0; found request 1, token 0, generation 0"
    ]


def test_pages_lost_behind_the_managers_back_stop_the_engine():
    """Counts that disagree with the pages are no business as usual."""
    engine = with_pages(gpu_pages=4)
    engine.submit(2, 3)
    engine.pages.gpu.take(3)
    with pytest.raises(PageError):
        engine.run_pass()


# ---- Stalls ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda **o: Engine(**TINY, **o), with_pages], ids=["counts alone", "with pages"])
def test_the_dead_end_of_helix_published_is_said_in_one_breath(make):
    """Finding 3: after the first pass R0 has 2 pages and lacks 1 for its prompt, R1 has 2 and lacks 1 to decode."""
    engine = make(policy="helix-published")
    engine.submit(3, 2)
    engine.submit(2, 3)
    engine.run_pass()
    with pytest.raises(Stall) as stall:
        engine.run_pass()
    assert re.sub(r"\b1 GPU pages\b", "1 GPU page", str(stall.value)).splitlines() == [
        "stalled at pass 2: no pass computes a token any more.",
        "  request 0 (active) waits for 1 GPU page",
        "  request 1 (active) waits for 1 GPU page",
        "  free: 0 GPU pages, 0 host pages",
        "  request 0 (active) has 2 GPU and 0 host pages",
        "  request 1 (active) has 2 GPU and 0 host pages",
        "  remedy: more GPU pages (now 4), fewer requests, or another policy.",
    ]
    assert stall.value.exit_code == 1


def test_a_cancellation_ends_a_dead_end():
    engine = with_pages(policy="helix-published")
    engine.submit(3, 2)
    engine.submit(2, 3)
    engine.run_pass()
    with pytest.raises(Stall):
        engine.run_pass()
    engine.cancel(1)
    assert drained(engine) == [0]
    assert engine.counts.content_errors == 0


def test_the_livelock_of_helix_published_is_noticed_although_every_pass_is_busy():
    """Finding 2, its moves by hand: 12 steps of the checker's trace, then the same again."""
    engine = with_pages(gpu_pages=6, host_pages=1, policy="helix-published")
    engine.submit(2, 4)
    engine.submit(2, 4)
    finished = [engine.run_pass() for _ in range(4)]
    assert finished == [[], [], [], [0]]
    engine.submit(2, 4)
    for _ in range(3):
        engine.run_pass()
    before = engine.counts.suspends
    assert "request 2 (suspended) waits for 1 GPU page" in str(stalled(engine))
    assert engine.counts.suspends > before
    assert engine.counts.tokens == 4 + 2 + 3


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_that_stalls_only_here_is_no_stall_there(name):
    """The same two requests with one more page: nobody stalls."""
    engine = Engine(policy=name, gpu_pages=8, host_pages=0, page_tokens=1, chunk_tokens=2)
    engine.submit(3, 2)
    engine.submit(2, 3)
    assert sorted(drained(engine)) == [0, 1]


# ---- The engine and the explored model -------------------------------------------------------------

LIVE, MAX = 4, 3


@st.composite
def environments(draw):
    """A policy, sizes, and what the environment does: arrivals (prompt, output), cancellations (a row), passes."""
    bounds = Bounds(
        live=LIVE, gpu_pages=draw(st.integers(2, 7)), host_pages=draw(st.integers(0, 3)),
        page_tokens=draw(st.integers(1, 2)), chunk_tokens=draw(st.integers(1, 3)),
        max_prompt=MAX, max_output=MAX, early_stop=False,
    )  # fmt: skip
    lengths = st.tuples(st.just("arrive"), st.integers(1, MAX), st.integers(1, MAX))
    cancel = st.tuples(st.just("cancel"), st.integers(0, LIVE - 1), st.just(0))
    moves = st.lists(st.one_of(lengths, st.just(("pass", 0, 0)), st.just(("pass", 0, 0)), cancel), max_size=40)
    return draw(st.sampled_from(sorted(POLICIES))), bounds, draw(moves)


def packed(engine: Engine) -> list[int]:
    """The engine's table as the explorer would pack it."""
    words = np.zeros(LIVE, np.uint64)
    pack(engine._step.after, engine._step.tiers, words)
    return words.tolist()


@given(environments(), st.booleans())
def test_the_engine_goes_through_the_states_of_the_model(environment, pages):
    """Row by row after each move. A stall of the engine is one of the model: no pass computes a token again."""
    name, bounds, moves = environment
    gpu, host, page_tokens = bounds.gpu_pages, bounds.host_pages, bounds.page_tokens
    sizes = {"gpu_pages": gpu, "host_pages": host, "page_tokens": page_tokens, "chunk_tokens": bounds.chunk_tokens}
    told = []
    engine = with_pages(**sizes, policy=name) if pages else Engine(**sizes, policy=name)
    engine.on_violation = told.append
    model = LifecycleModel(policy_named(name), bounds)
    step, row, ids, submitted = model.new_step(), model.initial_rows()[0].copy(), [], 0
    for verb, first, second in moves:
        unpack(row, step.before, step.tiers_before)
        live = number_live(step.before)
        if verb == "arrive":
            if live == LIVE:
                continue
            outcome = engine.submit(first, second)
            feasible = peak_pages(first, second, page_tokens) <= gpu
            assert isinstance(outcome, Refusal) != feasible
            if not feasible:
                continue
            assert outcome == submitted
            ids.append(submitted)
            submitted += 1
            model.run(step, Move(Kind.ARRIVE, prompt=first, output=second))
        elif verb == "cancel":
            if first >= live:
                continue
            engine.cancel(ids.pop(first))
            model.run(step, Move(Kind.CANCEL, first))
        else:
            try:
                left = engine.run_pass()
            except Stall:
                assert no_token_ever_again(model, row)
                return
            model.run(step, Move(Kind.PASS))
            stayed = [r for r in range(live) if step.after.phase[r] != Phase.FINISHED]
            assert left == [ids[r] for r in range(live) if r not in stayed]
            ids = [ids[r] for r in stayed]
        pack(step.after, step.tiers, row)
        assert packed(engine) == row.tolist()
        assert engine.live == len(ids)
        unpack(row, step.before, step.tiers_before)
        assert engine.gpu_pages_used == gpu - step.tiers_before.free[GPU]
        if engine.pages is not None:
            engine.pages.check()
            held = [engine.pages.pages_of(request) for request in ids]
            assert held == [(step.before.gpu_pages[r], step.before.host_pages[r]) for r in range(len(ids))]
    assert engine.counts.content_errors == 0
    assert name != "resident-first" or told == []


def no_token_ever_again(model: LifecycleModel, row) -> bool:
    """Pass after pass from ``row``, until a state comes back: no pass schedules anything."""
    step, seen = model.new_step(), set()
    while row.tobytes() not in seen:
        seen.add(row.tobytes())
        unpack(row, step.before, step.tiers_before)
        model.run(step, Move(Kind.PASS))
        if step.plan.scheduled.any():
            return False
        row = np.zeros_like(row)
        pack(step.after, step.tiers, row)
    return True


@given(environments())
def test_resident_first_never_stalls_and_everybody_is_served(environment):
    """Whatever the environment did: afterwards each live request finishes, oldest included."""
    _, bounds, moves = environment
    engine = with_pages(bounds.gpu_pages, bounds.host_pages, bounds.page_tokens, chunk_tokens=bounds.chunk_tokens)
    for verb, first, second in moves:
        if verb == "arrive":
            engine.submit(first, second)
        elif engine.live:
            engine.run_pass()
    live = engine.live
    assert len(drained(engine)) == live
    assert (engine.counts.content_errors, engine.violations) == (0, [])
    assert engine.gpu_pages_used == 0
    engine.pages.check()
    assert engine.pages.gpu.free == bounds.gpu_pages


def test_no_line_of_a_stall_is_about_more_than_five_requests():
    """A thousand waiting requests must not fill the screen: five who wait, five who have the most."""
    engine = Engine(policy="helix-published", **TINY)
    engine.submit(3, 2)
    engine.submit(2, 3)
    for _ in range(100):
        engine.submit(1, 1)
    report = str(stalled(engine))
    assert report.count("waits for") <= 5
    assert len(report.splitlines()) <= 13


def test_a_page_manager_of_other_sizes_or_in_use_is_refused():
    from stallproof.pages import PageManager

    sizes = {"gpu_pages": 8, "host_pages": 1, "page_tokens": 2}
    for other in ((4, 1, 2), (8, 2, 2), (8, 1, 1)):
        with pytest.raises(UsageError, match="Make both with the same sizes"):
            Engine(**sizes, pages=PageManager(*other, device="cpu"))
    pages = PageManager(8, 1, 2, device="cpu")
    engine = Engine(**sizes, pages=pages)
    engine.submit(2, 2)
    engine.run_pass()
    with pytest.raises(UsageError, match="serves somebody already"):
        Engine(**sizes, pages=pages)


def broken(*_):
    raise RuntimeError("the device is gone")


def test_an_engine_that_stopped_in_the_middle_of_a_pass_says_so_and_does_no_more(monkeypatch):
    from stallproof.pages import PageManager

    pages = PageManager(4, 0, 1, device="cpu")
    engine = Engine(gpu_pages=4, page_tokens=1, pages=pages)
    engine.submit(2, 2)
    monkeypatch.setattr(pages, "carry_out", broken)
    with pytest.raises(RuntimeError, match="the device is gone"):
        engine.run_pass()
    for call in (engine.run_pass, lambda: engine.submit(1, 1), lambda: engine.cancel(0)):
        with pytest.raises(UsageError, match=r"in the middle of a pass \(the device is gone\).*Make a new engine"):
            call()


def test_a_check_that_raises_leaves_no_finished_request_behind(monkeypatch):
    engine = Engine(gpu_pages=4, page_tokens=1, chunk_tokens=4)
    engine.submit(1, 1)
    monkeypatch.setattr(engine, "_check_properties", broken)
    with pytest.raises(RuntimeError, match="the device is gone"):
        engine.run_pass()
    assert engine.live == 0


@pytest.mark.parametrize("lengths", [(1.5, 1), (True, 1), ("3", 1), (None, 1), (1, 0)])
def test_a_length_that_is_no_number_of_tokens_is_refused(lengths):
    with pytest.raises(UsageError, match="Each must be from 1"):
        Engine().submit(*lengths)
