"""From a file to a workload: lines, their numbers, and what is kept of them."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from stallproof.errors import TraceFormatError, UsageError
from stallproof.workloads.formats import Row, recognise
from stallproof.workloads.workload import Workload, refuse_limit_below_one

_GIVE_A_TRACE: Final = "Give the path of a trace, or the word conversation to have one generated."


def read_workload(path: str | os.PathLike[str], limit: int | None = None) -> Workload:
    """The workload in a trace of Mooncake, Azure or BurstGPT, told apart by content.

    The file is read as published: with or without a byte-order mark, CRLF and a final newline. A row
    that generates no token is skipped and counted. A row that goes back in time is moved to where it
    belongs; rows of one time keep the order of the file. Anything else that is odd is refused, with
    the line and the remedy, and nothing is returned.

    With ``limit`` the reading stops at that many rows kept, in the order of the file: what comes
    after is neither checked nor counted.
    """
    refuse_limit_below_one(limit)
    file_name = os.fspath(path)
    try:
        file = open(file_name, "rb")  # noqa: SIM115 (closed below; only the opening belongs in this try)
    except FileNotFoundError:
        raise UsageError("there is no such file", file_name, _GIVE_A_TRACE) from None
    except IsADirectoryError:
        raise UsageError("this is a directory", file_name, _GIVE_A_TRACE) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise UsageError(f"the file cannot be opened ({reason})", repr(file_name)[1:-1], _GIVE_A_TRACE) from None
    with file:
        return _read(file, file_name, limit)


def _read(file: BinaryIO, file_name: str, limit: int | None) -> Workload:
    lines = _lines(file, file_name)
    place, line = next(lines, (file_name, None))
    if line is None:
        raise TraceFormatError("the file is empty", file_name, _GIVE_A_TRACE)
    trace = recognise(line, place)
    rows = lines if trace.has_header else chain([(place, line)], lines)

    kept: list[Row] = []
    skipped = 0
    for place, line in rows:
        row = trace.read_row(line, place)
        if row.output == 0:
            skipped += 1
            continue
        if row.prompt == 0:
            raise TraceFormatError(
                f"the prompt has 0 tokens and the output {row.output}",
                place,
                "A request needs at least one prompt token: correct the row, or remove it.",
            )
        kept.append(row)
        if len(kept) == limit:
            break
    if not kept:
        raise TraceFormatError(
            f"no row of this {trace.name} trace records work ({skipped} skipped)",
            file_name,
            "A trace needs at least one row that generates a token.",
        )
    return _in_order(Path(file_name).name, kept, trace.per_second, skipped)


def _in_order(name: str, rows: list[Row], per_second: int, skipped: int) -> Workload:
    """Subtracts before it divides: nanoseconds since 1970 are exact as int, not as float."""
    first = min(row.time for row in rows)
    seconds = np.array([(row.time - first) / per_second for row in rows], np.float64)
    order = np.argsort(seconds, kind="stable")
    return Workload(
        name=name,
        arrival_seconds=seconds[order],
        prompt_tokens=np.array([row.prompt for row in rows], np.int64)[order],
        output_tokens=np.array([row.output for row in rows], np.int64)[order],
        skipped=skipped,
    )


def _lines(file: BinaryIO, file_name: str) -> Iterator[tuple[str, str]]:
    """Each line with its place. Blank lines may end a file; anywhere else they are refused."""
    blank_at = ""
    for number, data in enumerate(file, start=1):
        place = f"{file_name}, line {number}"
        try:
            line = (data.removeprefix(codecs.BOM_UTF8) if number == 1 else data).decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise TraceFormatError(
                f"byte {error.start + 1} of this line is not UTF-8", place, "Save the file as UTF-8."
            ) from None
        if not line.strip():
            blank_at = blank_at or place
        elif blank_at:
            raise TraceFormatError("this line is blank and more lines follow", blank_at, "Remove the blank line.")
        else:
            yield place, line
