"""A whole engine with made-up weights: its outputs with and without pressure, with and without the watcher.

Run as a program it is one engine: ``python -m integration_runs.vllm.whole_engine BLOCKS`` prints its outputs as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from integration_runs.vllm.standing_alone import model_folder
from stallproof.lifecycle import Event
from stallproof.observations import Change
from stallproof.recording import read_recording

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
    command = [sys.executable, "-m", "integration_runs.vllm.whole_engine", str(blocks)]
    ended = subprocess.run(
        command, env=os.environ | OFFLINE | environment, capture_output=True, text=True, check=False
    )
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
        (recording,) = Path(folder).iterdir()
        seen = read_recording(recording).observations
    for line in said:
        print(line[line.index("stallproof:") :])
    preemptions = sum(isinstance(one, Change) and one.event is Event.RECOMPUTE_PAUSE for one in seen)
    same = "the same" if roomy == pressed == watched else "OTHERS"
    tokens = sum(len(output) for output in watched)
    print(f"{len(watched)} requests, {tokens} tokens, {preemptions} preemptions under pressure")
    print(f"outputs without pressure, under pressure, and under pressure and watched: {same}")
    return not (same == "the same" and preemptions and any("no violation" in line for line in said))


def main(blocks: int) -> None:
    """One engine. Each request samples with a seed of its own, so that its tokens do not go round in a circle."""
    from vllm import LLM, SamplingParams

    llm = LLM(
        model=model_folder(),
        load_format="dummy",
        skip_tokenizer_init=True,
        dtype="float32",
        max_model_len=128,
        enforce_eager=True,
        block_size=32,
        num_gpu_blocks_override=blocks,
        enable_prefix_caching=False,
    )
    prompts = [{"prompt_token_ids": [(7 * number + place) % 120 + 3 for place in range(20)]} for number in range(12)]
    sampling = [
        SamplingParams(max_tokens=60, temperature=1.0, seed=number, ignore_eos=True, detokenize=False)
        for number in range(12)
    ]
    outputs = llm.generate(prompts, sampling, use_tqdm=False)
    llm.llm_engine.engine_core.shutdown()
    print(json.dumps([list(output.outputs[0].token_ids) for output in outputs]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
