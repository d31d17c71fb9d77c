"""A recording gives back what was written; what is wrong with a file is told, and the rest of it is used."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stallproof.errors import TraceFormatError, UsageError
from stallproof.lifecycle import Event, Phase
from stallproof.observations import Change, PassEnd, Pool, Standing
from stallproof.recording import Header, Recorder, header_line, is_recording, line_of, read_recording

HEADER = Header(Pool(4, 1, 1), "resident-first", 2, [Standing("a", Phase.SUSPENDED, 1, 1, 3, 2, 5, 0)])
SEEN = [
    Change(Event.ARRIVE, 0, 0, 0, 2, 0, 4),
    Change(Event.ADMIT, 0, 2, 0, 2, 0, requester="a"),
    PassEnd(1, {0: 2}, 2, 1),
    PassEnd(2, {}, None, None, in_flight=3),
]


def write(path, seen=SEEN, header=HEADER):
    with Recorder(path, header) as recorder:
        for one in seen:
            recorder.write(one)
    return path


def lines_of(path, *lines):
    path.write_text("".join(f"{line}\n" for line in (header_line(HEADER), *lines)), encoding="utf-8")
    return path


def counts():
    return st.none() | st.integers(0, 1 << 40)


def names():
    return st.integers() | st.text()


CHANGES = st.builds(
    Change, st.sampled_from(Event), names(), counts(), counts(), counts(), counts(), counts(), st.none() | names()
)
ENDS = st.builds(
    PassEnd,
    st.integers(0),
    st.dictionaries(names(), st.integers(0)),
    counts(),
    counts(),
    st.integers(0, 9),
    st.none() | st.dictionaries(st.sampled_from(Phase), st.lists(names())),
)


@given(st.lists(CHANGES | ENDS, max_size=20))
def test_what_is_written_is_read(tmp_path_factory, seen):
    path = write(tmp_path_factory.mktemp("recording") / "r.jsonl", seen)
    recording = read_recording(path)
    assert (recording.header, recording.observations) == (HEADER, seen)
    assert (recording.unreadable, recording.missing, recording.out_of_order, recording.truncated) == ([], 0, [], False)


@pytest.mark.skipif(importlib.util.find_spec("zstandard") is None, reason="the package zstandard is not installed")
def test_a_compressed_recording_is_read_even_if_it_was_never_closed(tmp_path):
    closed = write(tmp_path / "closed.jsonl.zst")
    recorder = Recorder(tmp_path / "open.jsonl.zst", HEADER)
    for one in SEEN:
        recorder.write(one)
    for path in (closed, tmp_path / "open.jsonl.zst"):
        assert read_recording(path).observations == SEEN
    recorder.close()


def test_every_prefix_of_a_file_gives_all_whole_lines(tmp_path):
    """Cut after any byte behind the header: the observations whose lines are whole are there, the cut one is told."""
    data = write(tmp_path / "whole.jsonl").read_bytes()
    cut = tmp_path / "cut.jsonl"
    for end in range(data.index(b"\n") + 1, len(data) + 1):
        cut.write_bytes(data[:end])
        recording = read_recording(cut)
        whole = data[:end].count(b"\n") - 1
        assert recording.observations[:whole] == SEEN[:whole]
        assert len(recording.observations) <= whole + 1
        assert recording.truncated == (data[end - 1 : end] != b"\n")
        assert recording.unreadable == []


def test_a_missing_line_is_counted_and_the_rest_used(tmp_path):
    path = lines_of(tmp_path / "r", line_of(1, SEEN[0]), line_of(4, SEEN[2]))
    recording = read_recording(path)
    assert (recording.missing, recording.observations) == (2, [SEEN[0], SEEN[2]])


def test_a_line_out_of_order_is_told_and_left_out(tmp_path):
    path = lines_of(tmp_path / "r", line_of(1, SEEN[0]), line_of(2, SEEN[1]), line_of(2, SEEN[1]), line_of(3, SEEN[2]))
    recording = read_recording(path)
    assert (recording.out_of_order, recording.missing, recording.observations) == ([4], 0, SEEN[:3])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "Expecting"),
        ('{"n": 2, "event": "pause", "request": 0}', "there is no event 'pause'"),
        ('{"n": 2, "event": "admit", "request": [0]}', "a request is named by"),
        ('{"n": 2, "event": "admit", "request": 0, "gpu_pages": 1.5}', "gpu_pages is 1.5, not a whole number"),
        ('{"n": "2", "event": "admit", "request": 0}', "n is '2', not a number"),
        ("7", "not subscriptable"),
    ],
)
def test_an_unreadable_line_is_told_with_its_number_and_is_not_a_gap(tmp_path, line, says):
    path = lines_of(tmp_path / "r", line_of(1, SEEN[0]), line, line_of(3, SEEN[2]))
    recording = read_recording(path)
    ((number, reason),) = recording.unreadable
    assert (number, recording.missing, recording.observations) == (3, 0, [SEEN[0], SEEN[2]])
    assert says in reason


@pytest.mark.parametrize(
    ("first", "says"),
    [
        ("", "is empty"),
        ("not json\n", "no first line of a recording"),
        ('{"stallproof": "trace", "version": 1}\n', "it is not a recording"),
        (header_line(HEADER).replace('"version": 1', '"version": 9') + "\n", "it has version 9, this reads version 1"),
    ],
)
def test_a_file_that_does_not_begin_as_a_recording_is_refused(tmp_path, first, says):
    path = tmp_path / "r"
    path.write_text(first, encoding="utf-8")
    with pytest.raises(TraceFormatError, match=says):
        read_recording(path)
    assert is_recording(path) == ("version 9" in says)


def test_a_file_that_is_not_there_or_cannot_be_written_is_told(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read_recording(tmp_path / "none")
    with pytest.raises(UsageError, match="cannot be written"):
        Recorder(tmp_path / "no folder" / "r", HEADER)


WRITER = """
import itertools, sys
from stallproof.observations import PassEnd, Pool
from stallproof.recording import Header, Recorder
with Recorder(sys.argv[1], Header(Pool(4, 1, 1))) as recorder:
    for n in itertools.count(1):
        recorder.write(PassEnd(n, {}, 4, 1))
        print(n, flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the platform has no SIGKILL")
def test_killing_the_process_loses_at_most_the_last_event(tmp_path):
    """The child says each number once its line is written: whatever it said before it was killed is in the file."""
    path = tmp_path / "r.jsonl"
    child = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        if int(line) >= 200:
            os.kill(child.pid, signal.SIGKILL)
            break
    said = [200, *(int(line) for line in child.stdout.read().split("\n")[:-1])]
    child.wait()
    child.stdout.close()
    recording = read_recording(path)
    numbers = [end.number for end in recording.observations]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= said[-1]
    assert (recording.missing, recording.unreadable) == (0, [])
