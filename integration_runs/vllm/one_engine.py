"""One engine in this process: ``python -m integration_runs.vllm.one_engine BLOCKS`` prints its outputs as JSON."""

from __future__ import annotations

import json
import sys

from integration_runs.vllm.standing_alone import model_folder

REQUESTS, OUTPUT = 12, 60


def prompt(number: int) -> list[int]:
    """Of a request, in token ids."""
    return [(7 * number + place) % 120 + 3 for place in range(20)]


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
    prompts = [{"prompt_token_ids": prompt(number)} for number in range(REQUESTS)]
    sampling = [
        SamplingParams(max_tokens=OUTPUT, temperature=1.0, seed=number, ignore_eos=True, detokenize=False)
        for number in range(REQUESTS)
    ]
    outputs = llm.generate(prompts, sampling, use_tqdm=False)
    llm.llm_engine.engine_core.shutdown()
    print(json.dumps([list(output.outputs[0].token_ids) for output in outputs]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
