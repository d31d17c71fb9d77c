"""The published traces themselves, when ``STALLPROOF_TRACES`` names a folder that holds some."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from stallproof.workloads import read_workload
from stallproof.workloads.generated import GAP_MILLISECONDS, OUTPUT_TOKENS, PROMPT_TOKENS


@pytest.fixture
def folder() -> Path:
    name = os.environ.get("STALLPROOF_TRACES")
    if not name:
        pytest.skip("STALLPROOF_TRACES names no folder of published traces")
    return Path(name)


def test_every_row_of_every_trace_is_kept_or_counted_as_skipped(folder: Path) -> None:
    traces = sorted(path for path in folder.iterdir() if path.suffix in {".csv", ".jsonl"})
    assert traces, f"{folder} holds no .csv or .jsonl file"
    for path in traces:
        content = path.read_bytes().rstrip()
        rows = content.count(b"\n") + 1 - (path.suffix == ".csv")
        workload = read_workload(path)
        assert len(workload) + workload.skipped == rows, path.name
        assert workload.arrival_seconds[0] == 0
        assert np.all(np.diff(workload.arrival_seconds) >= 0)
        assert min(workload.prompt_tokens.min(), workload.output_tokens.min()) >= 1


def test_the_failed_calls_of_burstgpt_are_counted(folder: Path) -> None:
    """The first 400 rows hold 17 that are 0/0."""
    path = folder / "burstgpt_400.csv"
    if not path.exists():
        pytest.skip("the folder has no burstgpt_400.csv")
    workload = read_workload(path)
    assert (len(workload), workload.skipped) == (383, 17)


def test_the_tables_of_the_generator_are_what_the_trace_measures(folder: Path) -> None:
    paths = [folder / name for name in ("conversation_trace.jsonl", "mooncake_conversation_1000.jsonl")]
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        pytest.skip("the folder has no Mooncake conversation trace")
    trace = read_workload(path, limit=1000)
    gaps = 1000 * np.diff(trace.arrival_seconds)
    for table, column in (
        (PROMPT_TOKENS, trace.prompt_tokens),
        (OUTPUT_TOKENS, trace.output_tokens),
        (GAP_MILLISECONDS, gaps),
    ):
        assert np.rint(np.quantile(column, np.linspace(0, 1, 41))).astype(int).tolist() == list(table)
