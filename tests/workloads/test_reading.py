"""What is read from a good file, and the ways of writing it that make no difference."""

from __future__ import annotations

import codecs
from pathlib import Path

import numpy as np
import pytest

from stallproof.errors import UsageError
from stallproof.workloads import Workload, open_workload, read_workload

from .writing import AZURE_HEADER, BURSTGPT_2024_HEADER, FORMATS, Row, azure, burstgpt, mooncake

ROWS: list[Row] = [(40, 700, 12), (40, 1, 1), (95, 2048, 300), (1200, 65, 7)]


def write(folder: Path, lines: list[str], name: str = "trace") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    return path


def columns(workload: Workload) -> tuple[list[float], list[int], list[int], int]:
    return (
        workload.arrival_seconds.tolist(),
        workload.prompt_tokens.tolist(),
        workload.output_tokens.tolist(),
        workload.skipped,
    )


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_is_told_by_its_content_and_keeps_its_own_unit(name: str, tmp_path: Path) -> None:
    """The same numbers are milliseconds in one format and seconds in another; the file's name says nothing."""
    lines_of, per_second = FORMATS[name]
    workload = read_workload(write(tmp_path, lines_of(ROWS), name="requests.txt"))

    assert columns(workload) == ([0, 0, 55 / per_second, 1160 / per_second], [700, 1, 2048, 65], [12, 1, 300, 7], 0)
    assert (len(workload), workload.name) == (4, "requests.txt")
    assert workload.arrival_seconds.dtype == np.float64
    assert workload.prompt_tokens.dtype == workload.output_tokens.dtype == np.int64


@pytest.mark.parametrize("blank_lines", [0, 1, 3])
@pytest.mark.parametrize("final_newline", [True, False])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("name", FORMATS)
def test_marks_line_ends_and_blank_last_lines_make_no_difference(
    name: str, mark: bytes, end: str, final_newline: bool, blank_lines: int, tmp_path: Path
) -> None:
    lines = FORMATS[name][0](ROWS) + [""] * blank_lines
    path = tmp_path / "trace"
    path.write_bytes(mark + (end.join(lines) + end * final_newline).encode())

    assert columns(read_workload(path)) == columns(read_workload(write(tmp_path, FORMATS[name][0](ROWS), "plain")))


def test_all_seven_decimals_of_the_wall_clock_count(tmp_path: Path) -> None:
    """``datetime`` keeps six: the last, 100 ns, would be lost."""
    workload = read_workload(write(tmp_path, azure([(0, 5, 5), (1, 5, 5), (12_345_678, 5, 5)])))
    assert workload.arrival_seconds.tolist() == [0, 1e-7, 1.2345678]


def test_the_wall_clock_crosses_midnight(tmp_path: Path) -> None:
    lines = [AZURE_HEADER, "2031-12-31 23:59:59.5000000,9,8", "2032-01-01 00:00:00.2500000,7,6"]
    assert read_workload(write(tmp_path, lines)).arrival_seconds.tolist() == [0, 0.75]


def test_the_2024_azure_traces_write_their_offset_and_are_read(tmp_path: Path) -> None:
    lines = [AZURE_HEADER, "2031-05-10 00:00:00.009930+00:00,9,8", "2031-05-10 00:00:02+00:00,7,6"]
    assert read_workload(write(tmp_path, lines)).arrival_seconds.tolist() == [0, 1.99007]


def test_the_newer_burstgpt_columns_and_decimal_seconds_are_read(tmp_path: Path) -> None:
    lines = [BURSTGPT_2024_HEADER, "700.0,a-b,3,A-1,20,4,24,API log", "700.5,c-d,3,A-1,30,5,35,API log"]
    assert columns(read_workload(write(tmp_path, lines))) == ([0, 0.5], [20, 30], [4, 5], 0)


def test_columns_stand_in_any_order_and_quoted_fields_are_fields(tmp_path: Path) -> None:
    lines = ['Response tokens,"Request tokens",Timestamp,Model', '4,20,1,"A, with a comma"']
    assert columns(read_workload(write(tmp_path, lines))) == ([0], [20], [4], 0)


@pytest.mark.parametrize("name", FORMATS)
def test_a_row_without_output_is_skipped_and_counted(name: str, tmp_path: Path) -> None:
    """Failed calls (0/0) and prompts nothing was generated for. Time starts at the first row kept."""
    rows = [(10, 0, 0), (30, 64, 2), (31, 64, 0), (50, 0, 0), (70, 8, 1)]
    lines_of, per_second = FORMATS[name]
    assert columns(read_workload(write(tmp_path, lines_of(rows)))) == ([0, 40 / per_second], [64, 8], [2, 1], 3)


@pytest.mark.parametrize("name", FORMATS)
def test_rows_back_in_time_are_moved_and_equal_times_keep_their_order(name: str, tmp_path: Path) -> None:
    rows = [(50, 1, 9), (20, 2, 9), (50, 3, 9), (20, 4, 9), (60, 5, 9)]
    lines_of, per_second = FORMATS[name]
    workload = read_workload(write(tmp_path, lines_of(rows)))
    assert workload.prompt_tokens.tolist() == [2, 4, 1, 3, 5]
    assert workload.arrival_seconds.tolist() == [0, 0, 30 / per_second, 30 / per_second, 40 / per_second]


def test_a_limit_stops_the_reading(tmp_path: Path) -> None:
    """Two rows kept, one skipped on the way; the broken line after them is never reached."""
    path = write(tmp_path, [*mooncake([(0, 5, 1), (1, 0, 0), (2, 6, 2)]), "{broken"])
    assert columns(read_workload(path, limit=2)) == ([0, 0.002], [5, 6], [1, 2], 1)


def test_a_limit_above_the_number_of_rows_reads_them_all(tmp_path: Path) -> None:
    assert len(read_workload(write(tmp_path, burstgpt(ROWS)), limit=10**9)) == 4


def test_first_gives_the_earliest_requests_or_all_there_are(tmp_path: Path) -> None:
    workload = read_workload(write(tmp_path, mooncake(ROWS)))
    assert columns(workload.first(3)) == ([0, 0, 0.055], [700, 1, 2048], [12, 1, 300], 0)
    assert len(workload.first(99)) == 4


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused_everywhere(limit: int, tmp_path: Path) -> None:
    path = write(tmp_path, mooncake(ROWS))
    workload = read_workload(path)
    for attempt in (
        lambda: read_workload(path, limit),
        lambda: workload.first(limit),
        lambda: open_workload("conversation", limit),
        lambda: open_workload(str(path), limit),
    ):
        with pytest.raises(UsageError, match=f"^the limit on requests is {limit}, .* Ask for at least 1"):
            attempt()


def test_the_command_line_opens_a_path_or_generates(tmp_path: Path) -> None:
    path = write(tmp_path, azure(ROWS))
    assert columns(open_workload(str(path), None)) == columns(read_workload(path))
    assert len(open_workload(str(path), 2)) == 2
    assert len(open_workload("conversation", None)) == 300
    assert len(open_workload("conversation", 7)) == 7


def test_a_file_named_conversation_is_read_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, mooncake(ROWS), name="conversation")
    monkeypatch.chdir(tmp_path)
    assert len(open_workload("./conversation", None)) == 4
