"""vLLM's own scheduler tests, without and with the watcher.

They come with the source distribution; ``VLLM_TESTS`` is a folder with its ``tests``, without its ``vllm``, which would
hide the installed one. Nothing of it is kept here. Some tests need models of the hub: those that read no more than a
configuration and a tokenizer get made-up ones (``VLLM_MODEL_REDIRECT_PATH``), the others fail with and without.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from integration_runs.vllm.standing_alone import model_folder

FILES = (
    "test_scheduler.py",
    "test_async_scheduler.py",
    "test_deferred_block_free.py",
    "test_priority_scheduler_random.py",
    "test_swa_inflight_window_free.py",
)


def show() -> int:
    """The outcome of every test, twice."""
    sources = Path(os.environ.get("VLLM_TESTS", "")).resolve()
    files = [f"tests/v1/core/{name}" for name in FILES if (sources / "tests/v1/core" / name).exists()]
    if not files:
        print("vLLM's own tests: VLLM_TESTS names no folder with the folder tests of a source distribution; not run")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        alone = outcomes(sources, files, Path(folder) / "alone.xml")
        told = Path(folder) / "watched.json"
        plugin = ("-p", "integration_runs.vllm.watched_tests")
        watched = outcomes(sources, files, Path(folder) / "watched.xml", *plugin, WATCHED_TESTS=str(told))
        says = json.loads(told.read_text())
    differ = sorted(name for name in alone.keys() | watched.keys() if alone.get(name) != watched.get(name))
    for name in differ:
        print(f"  {name}: {alone.get(name)} without the watcher, {watched.get(name)} with it")
    print(f"without: {_counted(alone)}\nwith:    {_counted(watched)}; {len(differ)} differ")
    print(
        f"{says['schedulers']} schedulers and {says['passes']} passes watched, {says['faults']} faults of the watcher"
    )
    for claim, tests in says["violations"].items():
        print(f"  {claim} found violated in {len(tests)} tests: {', '.join(tests)}")
    return bool(differ) or bool(says["faults"]) or not says["passes"]


def outcomes(sources: Path, files: list[str], report: Path, *options: str, **environment: str) -> dict[str, str]:
    """What became of each test, by its name. Those that cannot be imported are no tests, and are told."""
    redirects = report.with_suffix(".models")
    redirects.write_text(json.dumps({"facebook/opt-125m": _model_with_a_tokenizer()}))
    home = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([str(sources), home])
    environment |= {"PYTHONPATH": path, "VLLM_MODEL_REDIRECT_PATH": str(redirects), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", *options]
    command += ["-c", os.devnull, "--rootdir", str(sources), f"--junitxml={report}", *files]
    ended = subprocess.run(
        command, cwd=sources, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if not report.exists():
        raise RuntimeError(f"vLLM's tests did not run:\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}")
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = next((kind for kind in ("error", "failure", "skipped") if kind in kinds), "passed")
        found[f"{case.get('classname')}::{case.get('name')}"] = outcome
    return found


def _model_with_a_tokenizer() -> str:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    folder = model_folder()
    words = {f"w{number}": number for number in range(126)} | {"<unk>": 126, "</s>": 127}
    Tokenizer(WordLevel(words, "<unk>")).save(f"{folder}/tokenizer.json")
    says = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "eos_token": "</s>"}
    Path(folder, "tokenizer_config.json").write_text(json.dumps(says))
    return folder


def _counted(found: dict[str, str]) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(Counter(found.values()).items()))
