"""A whole engine with made-up weights: its outputs with and without pressure, with and without the watcher."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from stallproof.lifecycle import Event
from stallproof.observations import Change
from stallproof.recording import read_recording
from stallproof.replaying import replay

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "INFO",
}
PRESSED, ROOMY = 12, 200
"""Blocks of 32 tokens. Twelve requests of 20 + 60 tokens need 36."""


def run(blocks: int, **environment: str) -> tuple[list[list[int]], list[str]]:
    """An engine in a process of its own. Returns the tokens of each request, and what the watcher said."""
    command = [sys.executable, "-m", "integration_runs.vllm.one_engine", str(blocks)]
    ended = subprocess.run(command, env=os.environ | OFFLINE | environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{ended.stderr[-4000:]}{ended.stdout[-4000:]}")
    said = [line for line in (ended.stdout + ended.stderr).splitlines() if "stallproof:" in line]
    return json.loads(ended.stdout.splitlines()[-1]), said


def show() -> int:
    """The same prompts, three times."""
    roomy, _ = run(ROOMY)
    pressed, _ = run(PRESSED)
    with tempfile.TemporaryDirectory() as folder:
        watched, said = run(PRESSED, STALLPROOF="full", STALLPROOF_RECORD=folder)
        preemptions, found = replayed(Path(folder))
    for line in said:
        print(line[line.index("stallproof:") :])
    same = "the same" if roomy == pressed == watched else "OTHERS"
    tokens = sum(len(output) for output in watched)
    print(f"{len(watched)} requests, {tokens} tokens, {preemptions} preemptions under pressure, {found} violations")
    print(f"outputs without pressure, under pressure, and under pressure and watched: {same}")
    return same != "the same" or not preemptions or bool(found)


def replayed(folder: Path) -> tuple[int, int]:
    """Of the one recording in a folder: how many preemptions, and how many violations a replay finds."""
    (path,) = folder.iterdir()
    recording = read_recording(path)
    changes = (seen for seen in recording.observations if isinstance(seen, Change))
    preemptions = sum(change.event is Event.RECOMPUTE_PAUSE for change in changes)
    return preemptions, sum(replay(recording).monitor.counts.values())
