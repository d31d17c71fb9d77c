"""Saved traces: what comes back is what was saved, and what was changed since is refused, with place and remedy."""

from __future__ import annotations

import json

import pytest

from stallproof import traces
from stallproof.bounds import Bounds
from stallproof.checking import check
from stallproof.errors import ReplayError, StallproofError, TraceFormatError
from stallproof.lifecycle import Phase
from stallproof.model import Kind, LifecycleModel, Move
from stallproof.policies import policy_named
from stallproof.properties import PROPERTIES
from stallproof.traces import as_json, trace_of, walk

BOUNDS = Bounds(gpu_pages=4, host_pages=0)
PASS = Move(Kind.PASS)
CLAIMS = {claim.name: claim for claim in PROPERTIES}


@pytest.fixture(scope="module")
def dead_end():
    """The 4 steps of finding 3: two arrivals, a pass that fills the GPU, a pass that decides nothing."""
    result = check("helix-published", BOUNDS, threads=1)
    return next(p.trace for p in result.properties if p.name == "no-dead-end")


@pytest.fixture
def saved(dead_end, tmp_path):
    """The trace as it was saved, for a test to tamper with."""
    traces.save(dead_end, tmp_path / "whole.json")
    return json.loads((tmp_path / "whole.json").read_text())


def refusal(data, tmp_path) -> StallproofError:
    """Why ``data``, a value or the bytes themselves, is no trace."""
    path = tmp_path / "tampered.json"
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    with pytest.raises((ReplayError, TraceFormatError)) as refused:
        traces.load(path)
    return refused.value


def assert_names_place_and_remedy(error: StallproofError) -> None:
    text = str(error)
    assert "tampered.json" in text
    assert "stallproof check --trace" in text
    assert "\n" not in text
    assert error.exit_code == 2  # 1 would say that the trace still breaks its claim


# ---- What comes back -------------------------------------------------------------------------------


def test_a_saved_trace_comes_back_as_it_was(dead_end, tmp_path):
    traces.save(dead_end, tmp_path / "trace.json")
    read = traces.load(tmp_path / "trace.json")
    assert (read.policy, read.bounds, read.claim) == (dead_end.policy, dead_end.bounds, dead_end.claim)
    assert (read.moves, read.loop_start) == (dead_end.moves, dead_end.loop_start)
    for there, here in zip(read.moments, dead_end.moments, strict=True):
        assert there[:-1] == here[:-1]
        assert (there.row == here.row).all()


@pytest.mark.parametrize(
    ("bounds", "name"),
    [
        (Bounds(gpu_pages=6, host_pages=1, max_output=4), "no-livelock"),
        (Bounds(live=3, gpu_pages=3, host_pages=1, chunk_tokens=1, max_prompt=1, max_output=2), "victim-makes-room"),
        (Bounds(live=3, gpu_pages=3, host_pages=0, max_prompt=1, max_output=2), "oldest-finishes"),
    ],
)
def test_traces_of_every_kind_come_back(bounds, name, tmp_path):
    result = check("helix-published", bounds, threads=1)
    trace = next(p.trace for p in result.properties if p.name == name)
    traces.save(trace, tmp_path / "trace.json")
    assert traces.as_json(traces.load(tmp_path / "trace.json")) == traces.as_json(trace)


def test_a_saved_trace_says_what_happened_in_words_and_numbers(saved):
    """By hand: R1 with prompt 3 and R2 with prompt 2 each compute 2 tokens; R2 is done with its prompt."""
    assert (saved["property"], saved["policy"], saved["loop_start"]) == ("no-dead-end", "helix-published", 3)
    assert [step["move"] for step in saved["steps"]] == ["arrive", "arrive", "pass", "pass"]
    assert saved["steps"][3]["after"] == [
        {"number": 1, "phase": "active", "decoding": False, "tokens": 3, "output_left": 2,
         "computed": 2, "gpu_pages": 2, "host_pages": 0, "copying": 0, "priority": 0},
        {"number": 2, "phase": "active", "decoding": True, "tokens": 3, "output_left": 2,
         "computed": 2, "gpu_pages": 2, "host_pages": 0, "copying": 0, "priority": 0},
    ]  # fmt: skip


def test_numbers_are_those_of_arrival_even_when_rows_close_up():
    model = LifecycleModel(policy_named("resident-first"), Bounds())
    moves = [Move(Kind.ARRIVE, 0, 1, 3), Move(Kind.ARRIVE, 0, 2, 3), Move(Kind.CANCEL, 0), Move(Kind.ARRIVE, 0, 3, 3)]
    moments = list(walk(model, moves))
    assert [moment.number for moment in moments] == [1, 2, 1, 3]
    assert [[r.number for r in moment.requests] for moment in moments] == [[1], [1, 2], [2], [2, 3]]
    assert [r.tokens for r in moments[-1].requests] == [2, 3]


# ---- What was tampered with ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "field", ["number", "tokens", "output_left", "computed", "gpu_pages", "host_pages", "copying", "priority"]
)
@pytest.mark.parametrize("step", [0, 2, 3])
def test_a_changed_number_of_a_state_is_found(saved, tmp_path, step, field):
    saved["steps"][step]["after"][0][field] += 1
    error = refusal(saved, tmp_path)
    assert isinstance(error, ReplayError)
    assert f"step {step + 1} " in str(error)
    assert_names_place_and_remedy(error)


def test_a_changed_phase_or_a_missing_request_is_found(saved, tmp_path):
    saved["steps"][2]["after"][1]["phase"] = "suspended"
    assert_names_place_and_remedy(refusal(saved, tmp_path))
    del saved["steps"][2]["after"][1]
    assert_names_place_and_remedy(refusal(saved, tmp_path))


@pytest.mark.parametrize("step", range(4))
def test_a_removed_step_is_found(saved, tmp_path, step):
    del saved["steps"][step]
    error = refusal(saved, tmp_path)
    assert isinstance(error, ReplayError)
    assert_names_place_and_remedy(error)


def test_a_trace_without_steps_says_nothing(saved, tmp_path):
    saved["steps"] = []
    error = refusal(saved, tmp_path)
    assert "an empty trace says nothing" in str(error)
    assert_names_place_and_remedy(error)


@pytest.mark.parametrize("start", [-1, 0, 1, 2, 4, 10**30, None])
def test_a_loop_that_starts_elsewhere_is_found(saved, tmp_path, start):
    saved["loop_start"] = start
    error = refusal(saved, tmp_path)
    assert isinstance(error, ReplayError)
    assert_names_place_and_remedy(error)


@pytest.mark.parametrize("start", ["3", 3.0, 1.5, [3], True, {}])
def test_a_loop_start_that_is_no_number_is_found(saved, tmp_path, start):
    saved["loop_start"] = start
    error = refusal(saved, tmp_path)
    assert isinstance(error, TraceFormatError)
    assert_names_place_and_remedy(error)


@pytest.mark.parametrize("name", sorted({*CLAIMS} - {"no-dead-end", "oldest-finishes"}))
def test_a_trace_shows_nothing_about_another_property(saved, tmp_path, name):
    saved["property"] = name
    error = refusal(saved, tmp_path)
    assert name in str(error)
    assert_names_place_and_remedy(error)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("property", "no-such-property"), ("property", []), ("property", None),
        ("version", 1), ("version", "2"), ("version", None),
        ("format", "something else"),
        ("policy", "no-such-policy"), ("policy", []), ("policy", None),
        ("bounds", None), ("bounds", []), ("bounds", "x"), ("bounds", {}),
        ("steps", None), ("steps", "arrive"), ("steps", {"move": "arrive"}), ("steps", [3]), ("steps", [None]),
    ],
)  # fmt: skip
def test_a_field_that_is_wrong_is_found(saved, tmp_path, field, value):
    saved[field] = value
    error = refusal(saved, tmp_path)
    assert isinstance(error, TraceFormatError)
    assert_names_the_file(error)


def assert_names_the_file(error: StallproofError) -> None:
    """Where the remedy may be another one, such as to choose a policy that exists."""
    assert "tampered.json" in str(error)
    assert error.exit_code == 2
    assert "\n" not in str(error)


@pytest.mark.parametrize("field", ["property", "policy", "bounds", "steps", "loop_start", "format", "version"])
def test_a_field_that_is_missing_is_found(saved, tmp_path, field):
    del saved[field]
    error = refusal(saved, tmp_path)
    assert isinstance(error, TraceFormatError)
    assert_names_place_and_remedy(error)


@pytest.mark.parametrize("field", ["move", "request", "prompt", "output", "after"])
def test_a_field_of_a_step_that_is_missing_is_found(saved, tmp_path, field):
    del saved["steps"][1][field]
    error = refusal(saved, tmp_path)
    assert isinstance(error, TraceFormatError)
    assert_names_place_and_remedy(error)


@pytest.mark.parametrize(
    ("bound", "value"),
    [
        ("live", 0), ("live", 17), ("live", "3"), ("live", 3.0), ("live", None), ("live", True),
        ("gpu_pages", 4.5), ("gpu_pages", float("nan")), ("gpu_pages", 10**30), ("gpu_pages", -1),
        ("max_prompt", 256), ("cancel", "yes"), ("cancel", 1), ("no_such_bound", 1),
    ],
)  # fmt: skip
def test_a_bound_that_makes_no_sense_is_found(saved, tmp_path, bound, value):
    saved["bounds"][bound] = value
    assert_names_the_file(refusal(saved, tmp_path))


def test_a_bound_that_is_missing_is_found(saved, tmp_path):
    del saved["bounds"]["live"]
    assert_names_place_and_remedy(refusal(saved, tmp_path))


@pytest.mark.parametrize("value", [2.5, 3.0, "3", True, None, [], float("nan"), float("inf")], ids=repr)
@pytest.mark.parametrize("field", ["request", "prompt", "output"])
def test_a_number_of_a_move_that_is_none_is_found(saved, tmp_path, field, value):
    saved["steps"][0][field] = value
    assert_names_place_and_remedy(refusal(saved, tmp_path))


@pytest.mark.parametrize(
    "data",
    [
        b"", b"not JSON at all", bytes(range(256)), b"\xff\xfe", b"null", b"[1]", b"3", b'"x"', b"{}",
        b"[" * 200_000, b'{"a": ' + b"9" * 5000 + b"}", b'{"format": "stallproof trace"}',
    ],
    ids=["empty", "prose", "binary", "not UTF-8", "null", "list", "number", "string", "object", "deep", "huge", "bare"],
)  # fmt: skip
def test_a_file_that_is_no_trace_is_found(tmp_path, data):
    error = refusal(data, tmp_path)
    assert isinstance(error, TraceFormatError)
    assert_names_place_and_remedy(error)


def test_a_file_cut_short_anywhere_is_found(saved, tmp_path):
    whole = json.dumps(saved).encode()
    for length in range(0, len(whole), 97):
        error = refusal(whole[:length], tmp_path)
        assert isinstance(error, TraceFormatError)
        assert_names_place_and_remedy(error)


@pytest.mark.parametrize("name", ["missing.json", ".", "no/such/folder.json", "a\0b"])
def test_a_file_that_is_not_there_is_found(tmp_path, name):
    with pytest.raises(TraceFormatError, match=r"cannot be read .*Give a file that `stallproof check --trace` wrote\."):
        traces.load(tmp_path / name)


def test_another_policy_leads_elsewhere(saved, tmp_path):
    saved["policy"] = "resident-first"
    error = refusal(saved, tmp_path)
    assert isinstance(error, ReplayError)
    assert_names_place_and_remedy(error)


# ---- Moves that nobody can make --------------------------------------------------------------------

ARRIVE_1 = Move(Kind.ARRIVE, prompt=3, output=2)  # prompt 3: with 4 GPU pages, at most 2 output tokens
ARRIVE_2 = Move(Kind.ARRIVE, prompt=2, output=3)


@pytest.mark.parametrize(
    ("before", "move"),
    [
        ([ARRIVE_1], Move(Kind.STOP, 0)),  # waiting
        ([ARRIVE_1, PASS], Move(Kind.STOP, 0)),  # active, but in the middle of its prefill
        ([ARRIVE_1], Move(Kind.STOP, 1)),
        ([ARRIVE_1], Move(Kind.STOP, -1)),
        ([ARRIVE_1], Move(Kind.CANCEL, 1)),
        ([ARRIVE_1], Move(Kind.CANCEL, -1)),
        ([ARRIVE_1], Move(Kind.CANCEL, 1000)),
        ([], Move(Kind.CANCEL, 0)),
        ([ARRIVE_1] * 3, ARRIVE_2),  # full
        ([ARRIVE_1] * 3, Move(Kind.REFUSE, prompt=3, output=3)),
        ([], Move(Kind.ARRIVE, prompt=0, output=3)),
        ([], Move(Kind.ARRIVE, prompt=-1, output=3)),
        ([], Move(Kind.ARRIVE, prompt=4, output=1)),
        ([], Move(Kind.ARRIVE, prompt=300, output=1)),
        ([], Move(Kind.ARRIVE, prompt=10**30, output=1)),
        ([], Move(Kind.ARRIVE, prompt=1, output=0)),
        ([], Move(Kind.ARRIVE, prompt=1, output=-1)),
        ([], Move(Kind.ARRIVE, prompt=1, output=4)),
        ([], Move(Kind.ARRIVE, prompt=3, output=3)),  # peak 5 of 4 pages: to be refused
        ([], Move(Kind.REFUSE, prompt=1, output=3)),  # peak 3 of 4 pages: to be accepted
        ([], Move(Kind.PASS, request=2)),
        ([], Move(Kind.PASS, prompt=1)),
        ([], Move(Kind.ARRIVE, request=1, prompt=1, output=3)),
    ],
)  # fmt: skip
def test_a_move_that_nobody_can_make_is_refused(before, move):
    model = LifecycleModel(policy_named("helix-published"), BOUNDS)
    assert len(list(walk(model, before))) == len(before)
    with pytest.raises(ReplayError, match=f"^step {len(before) + 1}: "):
        list(walk(model, [*before, move]))


@pytest.mark.parametrize(
    ("bounds", "move"),
    [(BOUNDS._replace(cancel=False), Move(Kind.CANCEL, 0)), (BOUNDS._replace(early_stop=False), Move(Kind.STOP, 0))],
)
def test_what_the_bounds_leave_out_is_refused(bounds, move):
    """After a pass the request with prompt 2 decodes, so with early stop and cancellation both are possible."""
    arrive = Move(Kind.ARRIVE, prompt=2, output=3)
    list(walk(LifecycleModel(policy_named("helix-published"), BOUNDS), [arrive, PASS, move]))
    with pytest.raises(ReplayError, match=r"^step 3: "):
        list(walk(LifecycleModel(policy_named("helix-published"), bounds), [arrive, PASS, move]))


def test_an_infeasible_request_is_refused_and_leaves_no_trace():
    model = LifecycleModel(policy_named("resident-first"), BOUNDS)
    (moment,) = walk(model, [Move(Kind.REFUSE, prompt=3, output=3)])
    assert moment.requests == ()
    assert moment.number == 0


def test_a_stopped_request_leaves_and_its_pages_with_it():
    model = LifecycleModel(policy_named("resident-first"), BOUNDS)
    arrive = Move(Kind.ARRIVE, prompt=2, output=3)
    *_, before, after = walk(model, [arrive, PASS, Move(Kind.STOP, 0)])
    assert [(r.phase, r.gpu_pages) for r in before.requests] == [(Phase.ACTIVE, 2)]
    assert (after.number, after.requests) == (1, ())


# ---- What a counterexample must be -----------------------------------------------------------------


def test_a_loop_without_a_pass_is_no_counterexample():
    """The environment alone may dawdle: a refusal leads nowhere, so it could repeat for ever."""
    model = LifecycleModel(policy_named("resident-first"), BOUNDS)
    moves = [Move(Kind.ARRIVE, prompt=2, output=3), Move(Kind.REFUSE, prompt=3, output=3)]
    with pytest.raises(ReplayError, match="no pass: only the environment dawdles"):
        trace_of(model, CLAIMS["oldest-finishes"], moves, 1)


def test_a_loop_that_fulfils_its_claim_is_no_counterexample(dead_end):
    model = LifecycleModel(dead_end.policy, dead_end.bounds)
    with pytest.raises(ReplayError, match="no-livelock is fulfilled on the way round the loop"):
        trace_of(model, CLAIMS["no-livelock"], dead_end.moves, 3)


def test_a_last_step_that_breaks_nothing_is_no_counterexample(dead_end):
    model = LifecycleModel(dead_end.policy, dead_end.bounds)
    with pytest.raises(ReplayError, match="the last step does not make page-conservation false"):
        trace_of(model, CLAIMS["page-conservation"], dead_end.moves, None)


def test_a_sometimes_property_cannot_be_shown_false(saved, tmp_path):
    saved["property"], saved["loop_start"] = "sometimes-suspends", None
    assert "no trace can show that it does not" in str(refusal(saved, tmp_path))


def test_a_property_of_single_steps_has_no_loop(tmp_path):
    bounds = Bounds(live=3, gpu_pages=3, host_pages=1, chunk_tokens=1, max_prompt=1, max_output=2)
    [failure] = [p for p in check("helix-published", bounds).properties if p.name == "victim-makes-room"]
    saved = as_json(failure.trace) | {"loop_start": 0}
    assert "the trace names a loop" in str(refusal(saved, tmp_path))


def test_a_number_written_as_a_fraction_is_not_that_number(saved, tmp_path):
    saved["steps"][0]["after"][0]["tokens"] = 3.0
    assert isinstance(refusal(saved, tmp_path), ReplayError)
