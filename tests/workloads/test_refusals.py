"""Every way a trace can be bad: one sentence with the place, one with the remedy, nothing returned."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallproof.errors import EXIT_USAGE, TraceFormatError, UsageError
from stallproof.workloads import read_workload

from .writing import AZURE_HEADER, BURSTGPT_HEADER, azure_line, burstgpt_line, mooncake_line

GOOD_JSON = mooncake_line(3, 700, 12)
GOOD_AZURE = azure_line(3, 700, 12)
GOOD_BURST = burstgpt_line(3, 700, 12)


def refusal(folder: Path, content: str | bytes) -> TraceFormatError:
    """What reading the content raises; its message starts with the file's path."""
    path = folder / "trace"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(TraceFormatError) as caught:
        read_workload(path)
    error = caught.value
    assert error.place.startswith(str(path))
    assert str(error) == f"{error.place}: {error.what}. {error.remedy}"
    assert error.remedy.endswith(".")
    assert "\n" not in str(error)
    assert error.exit_code == EXIT_USAGE
    return error


def record(**changes: str) -> str:
    """A Mooncake line with some values replaced by the JSON text given."""
    fields = {"timestamp": "3", "input_length": "700", "output_length": "12", "hash_ids": "[0, 1]"} | changes
    return "{" + ", ".join(f'"{field}": {text}' for field, text in fields.items()) + "}"


JSON_LINES = {
    "truncated in a string": ('{"timestamp": 3, "input_le', "not a complete JSON object (Unterminated string"),
    "truncated in a list": ('{"timestamp": 3, "hash_ids": [1, 2', "not a complete JSON object (Expecting ','"),
    "two objects": (GOOD_JSON + GOOD_JSON, "not a complete JSON object (Extra data"),
    "a list": ("[3, 700, 12]", "this line is '[3, 700, 12]', not a JSON object"),
    "a number": ("17", "this line is '17', not a JSON object"),
    "too deep": ('{"hash_ids": ' + "[" * 100_000, "this line cannot be read"),
    "no timestamp": ('{"input_length": 1, "output_length": 1}', "the field 'timestamp' is missing"),
    "no prompt": ('{"timestamp": 1, "output_length": 1}', "the field 'input_length' is missing"),
    "no output": ('{"timestamp": 1, "input_length": 1}', "the field 'output_length' is missing"),
    "negative prompt": (record(input_length="-5"), "input_length is -5, which is negative"),
    "negative output": (record(output_length="-5"), "output_length is -5, which is negative"),
    "fraction": (record(input_length="7.5"), "input_length is 7.5, which is not a whole number"),
    "decimal point": (record(output_length="7.0"), "output_length is 7.0, which is not a whole number"),
    "text": (record(input_length='"7"'), "input_length is '7', which is not a whole number"),
    "true": (record(output_length="true"), "output_length is True, which is not a whole number"),
    "null": (record(output_length="null"), "output_length is None, which is not a whole number"),
    "huge": (record(input_length="2147483648"), "input_length is 2147483648, which is above 2147483647"),
    "thousands of digits": (record(input_length="9" * 5000), "this line cannot be read (Exceeds the limit"),
    "a field twice": (record(input_length="1")[:-1] + ', "input_length": 2}', "a field is there twice"),
    "NaN time": (record(timestamp="NaN"), "NaN is no JSON number"),
    "NaN length": (record(input_length="NaN"), "NaN is no JSON number"),
    "infinite time": (record(timestamp="1e999"), "timestamp is inf, not a number of milliseconds"),
    "time without end": (record(timestamp="9" * 400), "timestamp is 999"),
    "time as text": (record(timestamp='"3"'), "timestamp is '3', not a number of milliseconds"),
    "time is true": (record(timestamp="true"), "timestamp is True, not a number of milliseconds"),
    "no prompt token": (record(input_length="0"), "the prompt has 0 tokens and the output 12"),
}

AZURE_LINES = {
    "cut in the time": ("2031-02-03 04:0", "this row has 1 field, the header has 3"),
    "cut before the output": ("2031-02-03 04:05:06.1,700", "this row has 2 fields, the header has 3"),
    "one field too many": (GOOD_AZURE + ",1", "this row has 4 fields, the header has 3"),
    "no time": (",700,12", "TIMESTAMP is '', not a UTC date and time"),
    "NaN time": ("NaN,700,12", "TIMESTAMP is 'NaN', not a UTC date and time"),
    "thirteenth month": ("2031-13-03 04:05:06.1,7,1", "TIMESTAMP is '2031-13-03 04:05:06.1', not a UTC"),
    "seconds": ("12.5,700,12", "TIMESTAMP is '12.5', not a UTC date and time"),
    "another zone": ("2031-02-03 04:05:06+02:00,7,1", "TIMESTAMP is '2031-02-03 04:05:06+02:00', not a UTC"),
    "negative prompt": ("2031-02-03 04:05:06.1,-7,1", "ContextTokens is -7, which is negative"),
    "fraction": ("2031-02-03 04:05:06.1,7,1.0", "GeneratedTokens is '1.0', which is not a whole number"),
    "empty length": ("2031-02-03 04:05:06.1,,1", "ContextTokens is '', which is not a whole number"),
    "no prompt token": ("2031-02-03 04:05:06.1,0,1", "the prompt has 0 tokens and the output 1"),
    "open quote": ('"2031-02-03 04:05:06.1,7,1', "this line is not CSV (unexpected end of data)"),
}

BURSTGPT_LINES = {
    "cut short": ("9,A-1,70", "this row has 3 fields, the header has 6"),
    "NaN time": ("nan,A-1,7,1,8,x", "Timestamp is 'nan', not a number of seconds"),
    "infinite time": ("1e999,A-1,7,1,8,x", "Timestamp is '1e999', not a number of seconds"),
    "wall clock": ("2031-02-03 04:05:06,A-1,7,1,8,x", "Timestamp is '2031-02-03 04:05:06', not a number of seconds"),
    "NaN length": ("9,A-1,nan,1,8,x", "Request tokens is 'nan', which is not a whole number"),
    "underscore": ("9,A-1,1_0,1,8,x", "Request tokens is '1_0', which is not a whole number"),
    "other digits": ("9,A-1,\u0663,1,8,x", "Request tokens is '\u0663', which is not a whole number"),
    "negative output": ("9,A-1,7,-1,8,x", "Response tokens is -1, which is negative"),
    "thousands of digits": (f"9,A-1,{'9' * 5000},1,8,x", "which is above 2147483647"),
    "no prompt token": ("9,A-1,0,1,1,x", "the prompt has 0 tokens and the output 1"),
}


@pytest.mark.parametrize(("line", "what"), JSON_LINES.values(), ids=JSON_LINES.keys())
def test_a_bad_mooncake_line_is_refused_at_its_line(line: str, what: str, tmp_path: Path) -> None:
    error = refusal(tmp_path, f"{GOOD_JSON}\n{line}\n{GOOD_JSON}\n")
    assert what in error.what
    assert error.place.endswith(", line 2")


@pytest.mark.parametrize(("line", "what"), AZURE_LINES.values(), ids=AZURE_LINES.keys())
def test_a_bad_azure_row_is_refused_at_its_line(line: str, what: str, tmp_path: Path) -> None:
    error = refusal(tmp_path, f"{AZURE_HEADER}\r\n{GOOD_AZURE}\r\n{line}\r\n{GOOD_AZURE}")
    assert what in error.what
    assert error.place.endswith(", line 3")


@pytest.mark.parametrize(("line", "what"), BURSTGPT_LINES.values(), ids=BURSTGPT_LINES.keys())
def test_a_bad_burstgpt_row_is_refused_at_its_line(line: str, what: str, tmp_path: Path) -> None:
    error = refusal(tmp_path, f"{BURSTGPT_HEADER}\n{GOOD_BURST}\n{line}")
    assert what in error.what
    assert error.place.endswith(", line 3")


def test_a_last_line_cut_anywhere_is_refused_in_json(tmp_path: Path) -> None:
    """No proper prefix of a JSON object is one, so every cut shows."""
    for kept in range(1, len(GOOD_JSON)):
        error = refusal(tmp_path, f"{GOOD_JSON}\n{GOOD_JSON[:kept]}")
        assert error.place.endswith(", line 2")
        assert "cut short" in error.remedy


@pytest.mark.parametrize(
    ("header", "what"),
    [
        ("TIMESTAMP,ContextTokens,OutputTokens", "the Azure column 'GeneratedTokens' is missing"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens,Region", "the Azure column 'Region' is not known"),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens,ContextTokens",
            "the Azure column 'ContextTokens' appears more than once",
        ),
        ("Timestamp,Model,Request tokens", "the BurstGPT column 'Response tokens' is missing"),
        ("Model,Request tokens,Response tokens", "the BurstGPT column 'Timestamp' is missing"),
        (BURSTGPT_HEADER + ",Tokens", "the BurstGPT column 'Tokens' is not known"),
    ],
)
def test_a_missing_strange_or_double_column_is_named_with_those_expected(
    header: str, what: str, tmp_path: Path
) -> None:
    error = refusal(tmp_path, f"{header}\n1,2,3\n")
    assert what in error.what
    assert error.place.endswith(", line 1")
    needed = "TIMESTAMP, ContextTokens, GeneratedTokens" if "Azure" in what else "Timestamp, Request tokens, Response"
    assert error.remedy.startswith(f"Expected are {needed}")


@pytest.mark.parametrize("first", [GOOD_BURST, "[" + GOOD_JSON + "]", "hello", "\x00\x01", "timestamp,input_length"])
def test_a_file_of_no_known_format_is_refused_with_the_formats_known(first: str, tmp_path: Path) -> None:
    error = refusal(tmp_path, f"{first}\n")
    assert "starts no trace known here" in error.what
    for known in ("Mooncake", AZURE_HEADER.replace(",", ", "), "Timestamp, Request tokens, Response tokens"):
        assert known in error.remedy


@pytest.mark.parametrize("content", ["", "\n", "\r\n\r\n", "\ufeff", "\ufeff\n"])
def test_an_empty_file_is_refused(content: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, content).what == "the file is empty"


@pytest.mark.parametrize(
    "content",
    [AZURE_HEADER, BURSTGPT_HEADER + "\n", f"{AZURE_HEADER}\n{azure_line(1, 7, 0)}\n", record(output_length="0")],
)
def test_a_trace_in_which_nothing_is_generated_is_refused(content: str, tmp_path: Path) -> None:
    assert "records work" in refusal(tmp_path, content).what


def test_a_blank_line_inside_the_file_is_refused_where_it_stands(tmp_path: Path) -> None:
    error = refusal(tmp_path, f"{GOOD_JSON}\n\n \n{GOOD_JSON}\n")
    assert error.what == "this line is blank and more lines follow"
    assert error.place.endswith(", line 2")


def test_a_byte_that_is_not_utf_8_is_refused_at_its_line(tmp_path: Path) -> None:
    error = refusal(tmp_path, f"{BURSTGPT_HEADER}\n{GOOD_BURST}\n".encode() + b"9,mod\xe8le,7,1,8,x\n")
    assert error.what == "byte 6 of this line is not UTF-8"
    assert error.place.endswith(", line 3")


def test_utf_16_is_refused_as_not_utf_8(tmp_path: Path) -> None:
    assert "not UTF-8" in refusal(tmp_path, f"{AZURE_HEADER}\n{GOOD_AZURE}\n".encode("utf-16")).what


def test_a_long_value_is_shortened_in_the_message(tmp_path: Path) -> None:
    assert len(refusal(tmp_path, record(input_length='"' + "x" * 10_000 + '"')).what) < 150


def test_a_missing_file_a_directory_and_an_impossible_name_are_refused(tmp_path: Path) -> None:
    """These are no trace at all, so the error is the plain one; the remedy names what can be given."""
    for path, what in (
        (tmp_path / "absent", "there is no such file"),
        (tmp_path, "this is a directory"),
        (tmp_path / "a\0b", "the file cannot be opened (embedded null byte)"),
        (tmp_path / ("x" * 5000), "the file cannot be opened (File name too long)"),
    ):
        with pytest.raises(UsageError) as caught:
            read_workload(path)
        assert caught.value.what == what
        assert "the word conversation" in caught.value.remedy
