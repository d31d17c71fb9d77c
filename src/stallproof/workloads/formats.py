"""The three formats: how each is recognised, and how one line of it becomes a row.

======== ================== ============================ ================== ===================
Format   A line             Time                         Prompt tokens      Output tokens
======== ================== ============================ ================== ===================
Mooncake a JSON object      ``timestamp``, milliseconds  ``input_length``   ``output_length``
Azure    CSV under a header ``TIMESTAMP``, wall clock    ``ContextTokens``  ``GeneratedTokens``
BurstGPT CSV under a header ``Timestamp``, seconds       ``Request tokens`` ``Response tokens``
======== ================== ============================ ================== ===================

A unit comes from the format, never from the size of a number. Columns stand in any order; a column
the format does not know is refused, since it may change what a row means. Fields of a JSON object
that are not read (``hash_ids``) may be anything.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, NoReturn

from stallproof.errors import TraceFormatError

MOST_TOKENS: Final = 2**31 - 1
"""Far above any context; a longer length is a mistake in the file, and sums of these fit int64."""

MOST_TIME: Final = 2**62
"""In any unit; above it, differences no longer mean anything (and infinity and NaN are refused)."""


class Row(NamedTuple):
    """One request as written: ``time`` is in the format's own unit, from its own origin."""

    time: float
    prompt: int
    output: int


@dataclass(frozen=True)
class Format:
    """How to read the lines after the header; ``per_second`` is how many units of time a second has."""

    name: str
    per_second: int
    has_header: bool
    read_row: Callable[[str, str], Row]
    """Takes the line and its place, which is what an error says first."""


def recognise(line: str, place: str) -> Format:
    """The format of a file that starts with ``line``."""
    if line.lstrip().startswith("{"):
        return Format("Mooncake", per_second=1000, has_header=False, read_row=_mooncake_row)
    header = _fields(line, place)
    known = [len(columns.all & set(header)) for columns in _TABLES]
    if max(known) == 0:
        raise TraceFormatError(
            f"{_short(line)} starts no trace known here",
            place,
            "Known are Mooncake's JSON lines, and CSV under Azure's header "
            f"({', '.join(_AZURE.needed)}) or BurstGPT's ({', '.join(_BURSTGPT.needed)}).",
        )
    return _csv_format(_TABLES[known.index(max(known))], header, place)


# Mooncake


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("a field is there twice")
    return record


def _mooncake_row(line: str, place: str) -> Row:
    try:
        record = json.loads(line, parse_constant=_refuse_constant, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        if not isinstance(error, json.JSONDecodeError):
            raise TraceFormatError(f"this line cannot be read ({error})", place, "Correct it or remove it.") from None
        reason = f"{error.msg} at column {error.colno}"
        raise TraceFormatError(
            f"this line is not a complete JSON object ({reason})",
            place,
            "If the file was cut short, fetch it again or remove the line.",
        ) from None
    if not isinstance(record, dict):
        raise TraceFormatError(
            f"this line is {_short(line)}, not a JSON object", place, "Each line holds one request between { and }."
        )
    for field in ("timestamp", "input_length", "output_length"):
        if field not in record:
            raise TraceFormatError(
                f"the field {field!r} is missing",
                place,
                "A Mooncake line has timestamp, input_length and output_length.",
            )
    time = record["timestamp"]
    if isinstance(time, bool) or not isinstance(time, int | float) or not abs(time) < MOST_TIME:
        _refuse_time("timestamp", time, "a number of milliseconds", place)
    return Row(
        time,
        _json_length(record["input_length"], "input_length", place),
        _json_length(record["output_length"], "output_length", place),
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _json_length(value: Any, field: str, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse_length(field, value, "is not a whole number", place)
    return _checked_length(value, field, place)


# The two CSV formats


@dataclass(frozen=True)
class _Table:
    name: str
    per_second: int
    needed: tuple[str, str, str]  # time, prompt, output
    ignored: tuple[str, ...]
    read_time: Callable[[str, str, str], float]

    @property
    def all(self) -> set[str]:
        return {*self.needed, *self.ignored}


def _csv_format(table: _Table, header: list[str], place: str) -> Format:
    missing = [column for column in table.needed if column not in header]
    strange = [column for column in header if column not in table.all]
    twice = sorted({column for column in header if header.count(column) > 1})
    for columns, what in ((missing, "is missing"), (strange, "is not known"), (twice, "appears more than once")):
        if columns:
            raise TraceFormatError(
                f"the {table.name} column {_short(columns[0])} {what}",
                place,
                f"Expected are {', '.join(table.needed)}"
                + (f", and optionally {', '.join(table.ignored)}." if table.ignored else "."),
            )
    at_time, at_prompt, at_output = (header.index(column) for column in table.needed)
    time_column, prompt_column, output_column = table.needed

    def read_row(line: str, place: str) -> Row:
        fields = _fields(line, place)
        if len(fields) != len(header):
            raise TraceFormatError(
                f"this row has {_count(len(fields), 'field')}, the header has {len(header)}",
                place,
                "If the file was cut short, fetch it again or remove the row.",
            )
        return Row(
            table.read_time(fields[at_time], time_column, place),
            _csv_length(fields[at_prompt], prompt_column, place),
            _csv_length(fields[at_output], output_column, place),
        )

    return Format(table.name, table.per_second, has_header=True, read_row=read_row)


def _fields(line: str, place: str) -> list[str]:
    """The fields of one CSV line. No format here quotes a line break, so a line is a row."""
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error as error:
        raise TraceFormatError(
            f"this line is not CSV ({error})", place, "Check its quotes, or remove the line."
        ) from None


def _csv_length(text: str, column: str, place: str) -> int:
    if not re.fullmatch(r"-?[0-9]+", text):
        _refuse_length(column, text, "is not a whole number", place)
    try:
        value = int(text)
    except ValueError:  # thousands of digits
        _refuse_length(column, text, _TOO_LONG, place)
    return _checked_length(value, column, place)


_CLOCK: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?(?:\+00:00|Z)?"
)
_EPOCH: Final = datetime(1970, 1, 1)


def _wall_clock(text: str, column: str, place: str) -> float:
    """Nanoseconds since 1970, exact. ``datetime`` keeps six decimals and the 2023 traces write seven."""
    match = _CLOCK.fullmatch(text)
    try:
        whole = (datetime.fromisoformat(match[1]) - _EPOCH) // timedelta(seconds=1) if match else None
    except ValueError:  # a thirteenth month
        whole = None
    if match is None or whole is None:
        _refuse_time(column, text, "a UTC date and time such as 2020-01-31 23:59:59.1234567", place)
    return whole * 10**9 + int((match[2] or "").ljust(9, "0"))


def _seconds(text: str, column: str, place: str) -> float:
    number = re.fullmatch(r"-?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?", text)
    if number is None or not abs(float(text)) < MOST_TIME:
        _refuse_time(column, text, "a number of seconds", place)
    return float(text)


_AZURE: Final = _Table("Azure", 10**9, ("TIMESTAMP", "ContextTokens", "GeneratedTokens"), (), _wall_clock)
_BURSTGPT: Final = _Table(
    "BurstGPT",
    1,
    ("Timestamp", "Request tokens", "Response tokens"),
    ("Session ID", "Elapsed time", "Model", "Total tokens", "Log Type"),
    _seconds,
)
_TABLES: Final = (_AZURE, _BURSTGPT)


# What a value may be


_TOO_LONG: Final = f"is above {MOST_TOKENS}, more than any request holds"


def _checked_length(value: int, field: str, place: str) -> int:
    if value < 0:
        _refuse_length(field, value, "is negative", place)
    if value > MOST_TOKENS:
        _refuse_length(field, value, _TOO_LONG, place)
    return value


def _refuse_length(field: str, value: object, why: str, place: str) -> NoReturn:
    raise TraceFormatError(
        f"{field} is {_short(value)}, which {why}", place, "Give it as a count of tokens, 0 or more, or remove the row."
    )


def _refuse_time(field: str, value: object, expected: str, place: str) -> NoReturn:
    raise TraceFormatError(f"{field} is {_short(value)}, not {expected}", place, "Correct it, or remove the row.")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
