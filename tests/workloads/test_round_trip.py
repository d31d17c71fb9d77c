"""Rows written in a real format come back equal, whatever the rows."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stallproof.workloads import read_workload

from .writing import FORMATS, Row

LENGTHS = st.one_of(st.integers(1, 40), st.integers(1, 2**31 - 1))


@st.composite
def traces(draw: st.DrawFn) -> list[Row]:
    """Rows in any order of time; an output of 0 is allowed, and at least one row generates a token."""
    times = st.integers(0, 2**40)
    rows: list[Row] = draw(
        st.lists(
            st.one_of(
                st.tuples(times, LENGTHS, LENGTHS),
                st.tuples(times, st.one_of(st.just(0), LENGTHS), st.just(0)),
            ),
            max_size=20,
        )
    )
    worker = draw(st.tuples(times, LENGTHS, LENGTHS))
    rows.insert(draw(st.integers(0, len(rows))), worker)
    return rows


@pytest.mark.parametrize("name", FORMATS)
@settings(deadline=None)  # it writes files, whose time is not ours
@given(rows=traces(), mark=st.booleans(), end=st.sampled_from(["\n", "\r\n"]), final_newline=st.booleans())
def test_what_is_written_is_read_back(
    name: str,
    rows: list[Row],
    mark: bool,
    end: str,
    final_newline: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Exactly: a time is the quotient of two integers, rounded once."""
    lines_of, per_second = FORMATS[name]
    path: Path = tmp_path_factory.getbasetemp() / f"round_trip_{name}"
    path.write_bytes(codecs.BOM_UTF8 * mark + (end.join(lines_of(rows)) + end * final_newline).encode())

    workload = read_workload(path)

    kept = sorted((row for row in rows if row[2] > 0), key=lambda row: row[0])
    assert workload.arrival_seconds.tolist() == [(time - kept[0][0]) / per_second for time, _, _ in kept]
    assert workload.prompt_tokens.tolist() == [prompt for _, prompt, _ in kept]
    assert workload.output_tokens.tolist() == [output for _, _, output in kept]
    assert workload.skipped == len(rows) - len(kept)
