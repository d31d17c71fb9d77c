"""The command line, verb by verb: what it prints, where, and how it exits; and bad input of every kind."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from stallproof.claims import Kind
from stallproof.cli import main
from stallproof.lifecycle import TRANSITIONS
from stallproof.policies import POLICIES
from stallproof.properties import PROPERTIES

DEAD_END = ("--policy", "helix-published", "--gpu-pages", "4", "--host-pages", "0", "--threads", "1")
BOTH = ("resident-first", "helix-published")
GOOD_LINE = '{"timestamp": 0, "input_length": 100, "output_length": 5}\n'


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Every test runs in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def good(folder):
    """A workload of one request: 100 + 5 - 1 tokens, so 2 pages of 64."""
    (folder / "good.jsonl").write_text(GOOD_LINE)
    return "good.jsonl"


@pytest.fixture
def trace(folder, capsys):
    """The dead end of helix-published, saved by the command line."""
    assert main(["check", *DEAD_END, "--trace", "trace.json"]) == 1
    capsys.readouterr()
    return "trace.json"


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def refused(capsys, *arguments: str, leaves: set[str] | None = None) -> str:
    """The one line on standard error of a refusal: exit 2, nothing on standard output, no new file."""
    before = {str(path) for path in Path().rglob("*")}
    code, out, err = run(capsys, *arguments)
    assert code == 2, (code, out, err)
    assert out == ""
    assert err.startswith("stallproof: error: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert "Traceback" not in err
    assert {str(path) for path in Path().rglob("*")} == before
    return err.removeprefix("stallproof: error: ").rstrip("\n")


# ---- check -----------------------------------------------------------------------------------------


def test_check_holds_with_exit_code_0(capsys):
    code, out, err = run(capsys, "check", "--threads", "1")
    assert code == 0
    assert out.splitlines()[0].startswith("resident-first: ")
    assert "resident-first holds: every claim is true of every run within the bounds." in out
    assert err == ""


def test_check_violated_with_exit_code_1_and_a_timeline(capsys):
    code, out, _ = run(capsys, "check", *DEAD_END)
    assert code == 1
    assert "no-dead-end, oldest-finishes: 4 steps" in out
    assert "helix-published violated: failed: no-dead-end, oldest-finishes." in out


def test_check_bound_reached_with_exit_code_3(capsys):
    code, out, _ = run(capsys, "check", "--max-states", "50", "--threads", "1")
    assert code == 3
    assert "resident-first bound reached: the search was cut off" in out
    assert " holds:" not in out


def test_check_without_a_claim_that_never_happens(capsys):
    """Nobody is ever short of pages here, so each sometimes-claim fails until it is left out."""
    bounds = ("--live", "2", "--gpu-pages", "1", "--page-tokens", "2", "--max-prompt", "1", "--threads", "1")
    assert run(capsys, "check", *bounds)[0] == 1
    sometimes = [claim.name for claim in PROPERTIES if claim.kind is Kind.SOMETIMES]
    unclaimed = [word for name in sometimes for word in ("--unclaimed", name)]
    assert run(capsys, "check", *bounds, *unclaimed)[0] == 0


def test_check_refuses_one_file_for_two_things_and_a_trace_on_standard_output(capsys, tmp_path):
    target = str(tmp_path / "both")
    code, _, err = run(capsys, "check", "--json", target, "--trace", target)
    assert (code, err) == (
        2,
        "stallproof: error: --json, --trace: both would be written to one file. Give two names.\n",
    )
    assert not list(tmp_path.iterdir())
    assert run(capsys, "check", "--trace", "-")[0] == 2


def test_check_refuses_more_outcomes_of_drafts_than_a_pass_can_have(capsys):
    code, _, err = run(capsys, "check", "--live", "12", "--lookahead", "3", "--max-states", "50")
    assert code == 2
    assert err.startswith("stallproof: error: --lookahead, --live: 12 live requests with 3 drafts each")


def test_a_command_without_standard_output_ends_with_exit_code_2(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["policies"]) == 2


def test_compare_writes_json_to_both_places(capsys, tmp_path):
    bounds = ("--live", "2", "--gpu-pages", "2", "--host-pages", "0", "--max-prompt", "1", "--threads", "1")
    target = tmp_path / "json"
    _, out, _ = run(
        capsys, "compare", "resident-first", "helix-published", *bounds, "--format", "json", "--json", str(target)
    )
    assert json.loads(out) == json.loads(target.read_text())


def test_drive_refuses_to_measure_a_workload_that_would_take_hours(capsys, tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"timestamp": 0, "input_length": 10, "output_length": 2147483647}\n')
    code, _, err = run(capsys, "drive", "--device", "cpu", str(trace))
    assert code == 2
    assert "--gpu-pages: the outputs of" in err


def test_check_takes_every_bound_from_its_option(capsys):
    code, out, _ = run(
        capsys, "check", "--live", "2", "--gpu-pages", "3", "--host-pages", "1", "--page-tokens", "2",
        "--chunk-tokens", "3", "--max-prompt", "4", "--max-output", "1", "--no-cancel", "--no-early-stop",
        "--every-output", "--lookahead", "1", "--priorities", "2", "--pass-requests", "2", "--pass-tokens", "4",
        "--copies", "--state-pages", "1", "--threads", "1", "--json", "-",
    )  # fmt: skip
    assert json.loads(out)["bounds"] == {
        "live": 2, "gpu_pages": 3, "host_pages": 1, "page_tokens": 2, "chunk_tokens": 3, "max_prompt": 4,
        "max_output": 1, "cancel": False, "early_stop": False, "every_output": True,
        "lookahead": 1, "priorities": 2, "pass_requests": 2, "pass_tokens": 4, "copies": True,
        "state_pages": 1,
    }  # fmt: skip
    assert code in (0, 1)


@pytest.mark.parametrize("threads", ["1", "2", "64"])
def test_check_says_the_same_with_any_number_of_threads(capsys, threads):
    _, out, _ = run(capsys, "check", *DEAD_END[:-1], threads, "--json", "-")
    value = json.loads(out)
    assert (value["verdict"], value["states"], value["transitions"], value["depth"]) == ("violated", 346, 1895, 11)


def test_check_with_worst_cases_shows_a_run_for_each_and_certifies_it(capsys):
    code, out, _ = run(capsys, "check", "--live", "2", "--worst-cases", "--threads", "1", "--json", "out.json")
    assert code == 0
    line = next(line for line in out.splitlines() if line.startswith("passes_of_one_request: "))
    assert line.endswith("from its arrival on")
    value = json.loads(Path("out.json").read_text())
    runs = {case["worst_case"]: case for case in value["worst_case_runs"]}
    assert set(runs) == set(value["worst_case"])
    for name, number in value["worst_case"].items():
        numerator, denominator = runs[name]["value"]
        assert number == pytest.approx(numerator / denominator, abs=1e-6)


# ---- compare and policies --------------------------------------------------------------------------


def test_compare_exits_1_if_either_is_violated_and_0_if_both_hold(capsys):
    code, out, err = run(capsys, "compare", "--threads", "1", *BOTH)
    assert code == 1
    assert "Both go the same way for 4 steps:" in out
    assert err == ""
    assert run(capsys, "compare", "--live", "2", "--threads", "1", "resident-first", "resident-first")[0] == 0
    assert run(capsys, "compare", "--max-states", "50", "--threads", "1", "resident-first", "resident-first")[0] == 3


def test_compare_on_a_workload_drives_both_over_the_same_pools(capsys, good):
    _, out, _ = run(capsys, "compare", "--trace", good, "--trace-gpu-pages", "2", "--format", "json", *BOTH)
    value = json.loads(out)
    assert value["workload"] == "good.jsonl, 1 requests, 2 GPU pages, 1 host pages"
    assert [side["passes"] for side in value["throughput"]] == [5, 5]
    assert [side["policy"] for side in value["policies"]] == list(BOTH)
    assert [side["verdict"] for side in value["policies"]] == ["holds", "violated"]


def test_compare_as_markdown_is_alone_on_standard_output(capsys):
    _, out, err = run(capsys, "compare", "--format", "markdown", "--live", "2", *BOTH)
    assert out.startswith("### resident-first and helix-published\n")
    assert err == ""


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("nope", "resident-first"), "--policy: there is no policy 'nope'"),
        (("resident-first", ""), "--policy: there is no policy ''"),
        (("--live", "0", *BOTH), "--live: 0 is out of range"),
        (("--max-states", "0", *BOTH), "--max-states: 0 is out of range"),
        (("--threads", "-1", *BOTH), "--threads: -1 is out of range"),
        (("--limit", "0", *BOTH), "--limit: 0 is out of range"),
        (("--trace-gpu-pages", "0", *BOTH), "--trace-gpu-pages: 0 is out of range"),
        (("--trace-host-pages", "-1", *BOTH), "--trace-host-pages: -1 is out of range"),
        (("--trace", "missing.jsonl", *BOTH), "missing.jsonl"),
        (("--trace", "good.jsonl", "--trace-gpu-pages", "1", *BOTH), "--trace-gpu-pages: no request of 'good.jsonl' "),
    ],
)
def test_compare_refuses_bad_input(capsys, good, arguments, error):
    assert refused(capsys, "compare", "--json", "out.json", *arguments).startswith(error)


@pytest.mark.parametrize("arguments", [("resident-first",), (), ("--format", "svg", *BOTH)])
def test_compare_wants_two_policies_and_a_format_it_knows(capsys, arguments):
    with pytest.raises(SystemExit) as left:
        main(["compare", *arguments])
    assert left.value.code == 2
    assert "usage: stallproof compare" in capsys.readouterr().err


def test_policies_judges_all_of_them_and_exits_0_whatever_they_are(capsys):
    code, out, err = run(capsys, "policies", "--json", "out.json")
    assert code == 0
    assert err == ""
    value = json.loads(Path("out.json").read_text())
    assert [policy["name"] for policy in value] == list(POLICIES)
    assert [line.split()[0] for line in out.splitlines()[1 : 1 + len(POLICIES)]] == list(POLICIES)
    for policy in value:
        assert set(policy["at"]) == {"host tier", "GPU only"}
        for at in policy["at"].values():
            assert set(at["properties"]) == {claim.name for claim in PROPERTIES}
    markdown = run(capsys, "policies", "--format", "markdown")[1]
    assert markdown.startswith("| policy ")


# ---- recordings ------------------------------------------------------------------------------------


@pytest.fixture
def recording(capsys, good):
    """What the drive of one request by hand recorded: 5 passes, an arrival, an admission and an end."""
    assert main(["drive", "--device", "cpu", "--gpu-pages", "2", "--record", "run.jsonl", good]) == 0
    capsys.readouterr()
    return "run.jsonl"


def test_replay_repeats_what_drive_recorded(capsys, recording):
    """The five passes of the request of 100 + 5 tokens, and nothing violated."""
    code, out, _ = run(capsys, "replay", "--json", "replay.json", recording)
    value = json.loads(Path("replay.json").read_text())
    assert code == 0
    assert (value["passes"], value["compared"], value["divergence"], value["violations"]) == (5, 5, None, 0)
    assert out.startswith("run.jsonl: resident-first, 2 GPU pages, 1 host pages, 64 tokens a page")
    assert len(Path(recording).read_text().splitlines()) == 1 + value["observations"]  # the header's line


def test_explain_opens_a_recording_too(capsys, recording):
    assert run(capsys, "explain", recording) == run(capsys, "replay", recording)


def test_replay_exits_1_where_the_pass_does_something_else(capsys, recording):
    """The admission says one page; 100 tokens need two of 64."""
    lines = Path(recording).read_text()
    assert '"event": "admit"' in lines
    Path(recording).write_text(re.sub(r'("event": "admit".*?"gpu_pages": )2', r"\g<1>1", lines))
    code, out, _ = run(capsys, "replay", recording)
    assert code == 1
    assert "pass 1 is not what resident-first does:" in out


def test_replay_uses_what_a_killed_writer_left(capsys, recording):
    """Cut in the middle of its last line, which is the end of pass 5."""
    Path(recording).write_text(Path(recording).read_text()[:-9])
    code, out, _ = run(capsys, "replay", "--json", "replay.json", recording)
    value = json.loads(Path("replay.json").read_text())
    assert code == 0
    assert "the last line has no end and is left out" in out
    assert (value["truncated"], value["passes"], value["compared"]) == (True, 4, 4)


@pytest.mark.parametrize("content", ["", "{}", "\x00\xff", '{"version": 99}\n', '{"stallproof recording": 99}\n'])
def test_replay_refuses_what_is_no_recording(capsys, content):
    Path("not.jsonl").write_text(content)
    assert "not.jsonl" in refused(capsys, "replay", "not.jsonl")


@pytest.mark.parametrize("name", ["missing.jsonl", ".", "a\0b"])
def test_replay_refuses_what_is_no_file(capsys, name):
    assert refused(capsys, "replay", name)


@pytest.mark.parametrize("target", ["missing/run.jsonl", "."])
def test_a_recording_that_cannot_be_written_is_refused_before_any_work(capsys, good, target):
    error = refused(capsys, "drive", "--device", "cpu", "--record", target, good)
    assert error.startswith(f"--record: '{target}' cannot be written. Give ")


# ---- --json ----------------------------------------------------------------------------------------


def test_json_on_standard_output_is_alone_there(capsys, good, trace, recording):
    for arguments in (
        ("check", "--threads", "1"),
        ("check", *DEAD_END),
        ("check", "--max-states", "9", "--threads", "1"),
        ("drive", "--device", "cpu", "--gpu-pages", "9", good),
        ("explain", trace),
        ("replay", recording),
        ("policies",),
        ("compare", *BOTH, "--live", "2"),
        ("bench", "pass"),
    ):
        verb, *rest = arguments
        _, out, err = run(capsys, verb, "--json", "-", *rest)
        assert json.loads(out), arguments
        assert err, arguments  # what a person reads goes there


def test_json_in_a_file_is_what_it_is_on_standard_output(capsys, trace):
    _, on_output, _ = run(capsys, "explain", "--json", "-", trace)
    _, out, _ = run(capsys, "explain", "--json", "out.json", trace)
    assert Path("out.json").read_text() == on_output
    assert "no-dead-end: 4 steps" in out
    assert sorted(path.name for path in Path().iterdir()) == ["out.json", trace]


def test_json_replaces_a_file_whole(capsys):
    Path("out.json").write_text("x" * 100_000)
    run(capsys, "policies", "--json", "out.json")
    assert [policy["name"] for policy in json.loads(Path("out.json").read_text())] == list(POLICIES)
    assert [path.name for path in Path().iterdir()] == ["out.json"]


def test_json_through_a_link_changes_the_file_and_leaves_the_link(capsys):
    Path("elsewhere").mkdir()
    Path("elsewhere/real.json").write_text("old")
    Path("out.json").symlink_to("elsewhere/real.json")
    run(capsys, "policies", "--json", "out.json")
    assert Path("out.json").is_symlink()
    assert json.loads(Path("elsewhere/real.json").read_text())


def test_json_into_a_pipe_leaves_the_pipe_there(capsys):
    """A device or a named pipe is written to; replacing it (think of /dev/null) would be vandalism."""
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run(capsys, "policies", "--json", "pipe")[0] == 0
        assert stat.S_ISFIFO(Path("pipe").stat().st_mode)
        assert json.loads(os.read(reader, 1 << 16))
    finally:
        os.close(reader)


@pytest.mark.parametrize("target", ["missing/out.json", ".", ""])
@pytest.mark.parametrize("verb", ["check", "drive", "explain", "policies", "compare", "bench"])
def test_a_json_file_that_cannot_be_written_is_refused_before_any_work(capsys, good, trace, verb, target):
    operands = {"drive": [good], "explain": [trace], "compare": BOTH, "bench": ["pass"]}.get(verb, [])
    assert refused(capsys, verb, "--json", target, *operands).startswith(f"--json: '{target}' cannot be written. Give ")


def test_a_failed_run_leaves_an_old_json_file_alone(capsys, good):
    Path("out.json").write_text("old")
    assert refused(capsys, "drive", "--device", "cpu", "--gpu-pages", "1", "--json", "out.json", good)
    assert Path("out.json").read_text() == "old"


# ---- --trace and explain ---------------------------------------------------------------------------


def test_a_trace_is_written_explained_and_exits_1_since_it_still_breaks_its_claim(capsys, trace):
    code, out, err = run(capsys, "explain", trace)
    assert code == 1
    assert err == ""
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines[0].startswith("helix-published: ")
    assert lines[1].startswith("3 live requests, 4 GPU pages, no host tier, ")
    assert "Replayed: every step is as recorded." in " ".join(lines[1:3])
    assert "no-dead-end: 4 steps" in lines[2:4]
    assert lines[-3:] == [
        "   4  pass: nothing happens                                                   1122",
        "      R1 active, prefill, 2 of 3 tokens computed",
        "      R2 active, decode, 2 of 3 tokens computed",
    ]


def test_without_a_failure_no_trace_is_written(capsys):
    code, _, err = run(capsys, "check", "--threads", "1", "--trace", "trace.json")
    assert code == 0
    assert err == "nothing failed with a trace, so no trace was written\n"
    assert not Path("trace.json").exists()


def test_a_trace_that_no_longer_replays_exits_2_not_1(capsys, trace):
    saved = json.loads(Path(trace).read_text())
    saved["steps"][2]["after"][0]["computed"] = 1
    Path(trace).write_text(json.dumps(saved))
    error = refused(capsys, "explain", trace)
    assert error.startswith(f"{trace}: step 3 leads elsewhere than recorded")


@pytest.mark.parametrize(
    "content", [b"", b"garbage\n", bytes(range(256)), b"{}", b"[]", GOOD_LINE.encode(), b"[" * 100_000]
)
def test_explain_refuses_garbage(capsys, content):
    Path("garbage").write_bytes(content)
    assert refused(capsys, "explain", "garbage").startswith("garbage")


@pytest.mark.parametrize("name", ["missing.json", ".", "missing/trace.json", "a\0b"])
def test_explain_refuses_what_is_no_file(capsys, name):
    assert "Give a file that `stallproof check --trace` wrote." in refused(capsys, "explain", name)


@pytest.mark.parametrize("target", ["missing/trace.json", ".", ""])
def test_a_trace_that_cannot_be_written_is_refused_before_any_work(capsys, target):
    assert refused(capsys, "check", "--trace", target).startswith(f"--trace: '{target}' cannot be written. Give ")


# ---- drive -----------------------------------------------------------------------------------------


def test_drive_a_trace_by_hand(capsys, good):
    """One request of 100 prompt and 5 output tokens in one chunk: 5 passes, and pass n verifies 100 + n - 1 tokens."""
    code, out, _ = run(capsys, "drive", "--device", "cpu", "--gpu-pages", "2", "--json", "-", good)
    value = json.loads(out)
    assert code == 0
    assert (value["requests"], value["finished"], value["refused"], value["violations"]) == (1, 1, 0, 0)
    assert (value["tokens"], value["passes"], value["peak_gpu_pages"]) == (5, 5, 2)
    assert (value["content_checks"], value["content_errors"]) == (100 + 101 + 102 + 103 + 104, 0)
    assert (value["gpu_pages"], value["host_pages"]) == (2, 1)  # the host's default: half


def test_drive_the_generated_workload_with_default_pools(capsys):
    code, out, err = run(capsys, "drive", "--device", "cpu", "--limit", "8", "--arrivals", "burst", "conversation")
    assert code == 0
    assert out.startswith("conversation: 8 requests over ")
    assert " 0 wrong" in out
    assert err == ""


def test_drive_refuses_single_requests_and_goes_on(capsys):
    Path("mixed.jsonl").write_text(GOOD_LINE + GOOD_LINE.replace("100", "1000"))
    code, out, _ = run(capsys, "drive", "--device", "cpu", "--gpu-pages", "2", "mixed.jsonl")
    assert code == 0
    assert "1 refused: needs 16 pages at its longest, and the GPU has 2" in out


@pytest.mark.parametrize("checks", ["off", "sample", "full"])
def test_drive_checks_as_asked(capsys, good, checks):
    code, out, _ = run(capsys, "drive", "--device", "cpu", "--gpu-pages", "2", "--checks", checks, good)
    assert code == 0
    assert ("checks: " in out) == (checks != "full")


BAD_FILES = {
    "a truncated line": (GOOD_LINE + '{"timestamp": 1000, "input_len', ", line 2: "),
    "a negative length": (GOOD_LINE.replace("100", "-100"), ", line 1: input_length is -100"),
    "an unknown column": ("TIMESTAMP,ContextTokens,GeneratedTokens,Extra\n", ", line 1: the Azure column 'Extra'"),
    "an unknown header": ("a,b,c\n1,2,3\n", ", line 1: "),
    "an empty file": ("", ": the file is empty"),
    "prose": ("Dear diary,\n", ", line 1: "),
    "a length that is no number": (GOOD_LINE.replace("100", '"many"'), ", line 1: "),
    "a huge length": (GOOD_LINE.replace("100", "1" + "0" * 30), ", line 1: "),
    "no prompt": (GOOD_LINE.replace("100", "0"), ", line 1: "),
}


@pytest.mark.parametrize("what", BAD_FILES)
def test_drive_refuses_a_bad_file_naming_the_line(capsys, what):
    content, place = BAD_FILES[what]
    Path("bad").write_text(content)
    Path("out.json").write_text("old")
    assert f"bad{place}" in refused(capsys, "drive", "--device", "cpu", "--json", "out.json", "bad")
    assert Path("out.json").read_text() == "old"


@pytest.mark.parametrize("name", ["missing.jsonl", ".", "missing/trace", "a\0b"])
def test_drive_refuses_what_is_no_file(capsys, name):
    assert "Give the path of a trace, or the word conversation" in refused(capsys, "drive", name)


def test_drive_refuses_a_pool_in_which_no_request_can_ever_fit(capsys, good):
    error = refused(capsys, "drive", "--device", "cpu", "--gpu-pages", "1", good)
    assert error.startswith("--gpu-pages: no request of 'good.jsonl' can ever fit 1 GPU pages of 64 tokens: ")
    assert error.endswith("Give at least 2 pages to accept every request.")


HUGE = "1" + "0" * 30


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--gpu-pages", "0"), ("--gpu-pages", "-1"), ("--gpu-pages", HUGE), ("--gpu-pages", "100000000000"),
        ("--host-pages", "-1"), ("--host-pages", HUGE), ("--page-tokens", "0"), ("--page-tokens", HUGE),
        ("--page-tokens", str(2**63 - 1)), ("--chunk-tokens", "0"), ("--chunk-tokens", HUGE), ("--limit", "0"),
        ("--limit", "-1"), ("--limit", HUGE), ("--pass-milliseconds", "0"), ("--pass-milliseconds", "-1"),
        ("--pass-milliseconds", "nan"), ("--pass-milliseconds", "inf"), ("--policy", "nope"), ("--policy", ""),
    ],
)  # fmt: skip
def test_drive_refuses_a_number_out_of_range(capsys, good, option, value):
    assert refused(capsys, "drive", "--device", "cpu", option, value, good).startswith(f"{option}: ")


# ---- Bad input to check ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value", "remedy"),
    [
        ("--live", "0", "Give a number from 1 to 16."), ("--live", "17", "Give a number from 1 to 16."),
        ("--gpu-pages", "0", "Give a number from 1 to 255."), ("--gpu-pages", "256", "Give a number from 1 to 255."),
        ("--host-pages", "-1", "Give a number from 0 to 255."), ("--host-pages", HUGE, "Give a number from 0 to 255."),
        ("--page-tokens", "0", "Give a number from 1 to 255."), ("--chunk-tokens", "0", "Give a number from 1 to 255."),
        ("--max-prompt", "0", "Give a number from 1 to 255."), ("--max-prompt", "256", "Give a number from 1 to 255."),
        ("--max-output", "0", "Give a number from 1 to 255."), ("--max-output", "256", "Give a number from 1 to 255."),
        ("--max-states", "0", "Give at least 1."), ("--threads", "0", "Give at least 1."),
        ("--threads", "-3", "Give at least 1."),
        ("--policy", "nope", f"Choose one of: {', '.join(sorted(POLICIES))}. Or give your own as FILE.py:NAME."),
        ("--unclaimed", "nope", f"Choose from: {', '.join(claim.name for claim in PROPERTIES)}."),
    ],
)  # fmt: skip
def test_check_refuses_a_number_out_of_range(capsys, option, value, remedy):
    error = refused(capsys, "check", option, value, "--json", "out.json", "--trace", "trace.json")
    assert error.startswith(f"{option}: ")
    assert error.endswith(remedy)


def test_check_refuses_prompt_and_output_that_together_are_too_long(capsys):
    """A packed state has room for 255 tokens."""
    assert refused(capsys, "check", "--max-prompt", "200", "--max-output", "56") == (
        "--max-prompt, --max-output: prompt and output add up to 256 tokens. Keep their sum at or below 255."
    )


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["nope"], ["check", "--nope"], ["check", "--live", "x"], ["check", "--live", "1.5"], ["check", "extra"],
        ["check", "--live"], ["drive"], ["drive", "--device", "tpu", "x"], ["drive", "--checks", "some", "x"],
        ["drive", "--pass-milliseconds", "fast", "x"], ["explain"], ["diagram", "--format", "png"],
        ["diagram", "--json", "x"], ["bench", "everything"], ["policies", "extra"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_the_parser_refuses_exits_2_too(capsys, arguments):
    with pytest.raises(SystemExit) as refusal:
        main(arguments)
    out, err = capsys.readouterr()
    assert refusal.value.code == 2
    assert out == ""
    assert err.startswith("usage: stallproof")
    assert "error: " in err.splitlines()[-1]


# ---- The other verbs -------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["mermaid", "dot"])
def test_diagram_prints_the_diagram_alone(capsys, form):
    code, out, err = run(capsys, "diagram", "--format", form)
    assert (code, err) == (0, "")
    assert out.startswith({"mermaid": "stateDiagram-v2\n", "dot": "digraph lifecycle {\n"}[form])
    assert all(row.event.label in out for row in TRANSITIONS)


def test_diagram_without_graphviz_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setenv("PATH", "")
    error = refused(capsys, "diagram", "--format", "svg")
    assert error.endswith("Install the package graphviz, or use --format dot or mermaid.")


def test_bench_pass_prints_its_rows(capsys):
    code, out, _ = run(capsys, "bench", "pass")
    assert code == 0
    assert "pass, 1,024 requests in steady decode" in out


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["check", "--help"], ["drive", "--help"]])
def test_help_and_version_exit_0(capsys, arguments):
    with pytest.raises(SystemExit) as asked:
        main(arguments)
    assert asked.value.code == 0
    assert "stallproof" in capsys.readouterr().out


# ---- As a program ----------------------------------------------------------------------------------


def program(*arguments: str, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-W", "error", "-m", "stallproof.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_the_program_exits_with_the_code_of_its_verdict():
    done = program("check", *DEAD_END, "--json", "-")
    assert done.returncode == 1
    assert json.loads(done.stdout)["verdict"] == "violated"
    assert "helix-published violated" in done.stderr
    assert "\x1b" not in done.stderr  # no colour in a pipe


def test_the_program_refuses_in_one_line():
    done = program("check", "--live", "17")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "stallproof: error: --live: 17 is out of range. Give a number from 1 to 16.\n"


@pytest.mark.parametrize("json_too", [False, True])
def test_a_reader_that_leaves_early_is_no_violation(json_too):
    """``stallproof check | head -0``: exit 1 would say violated, exit 0 that somebody read that it holds."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "stallproof.cli", "check", "--threads", "1", *(["--json", "-"] if json_too else [])],
            stdout=closed, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode not in (0, 1, 3)
    assert "Traceback" not in done.stderr
