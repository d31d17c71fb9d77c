"""Holds ``vllm-fcfs`` and ``vllm-priority`` against the scheduler of vLLM itself, pass by pass, over random workloads.

vLLM is none of our requirements. Where it is installed (release 0.32.0, on CPU)::

    NUMBA_DISABLE_JIT=1 python -m model_checking.against_vllm [--policy vllm-fcfs] [--runs 150]

Both get the same arrivals and the same pool; after each pass the tokens scheduled, the requests preempted and the
pages left free must be the same. No model is loaded: a made-up token comes back for every complete request.
The threshold of a chunk does not hold in vLLM for a request that is alone, so neither does our chunk then.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from stallproof.lifecycle import Phase
from stallproof.limits import Limits
from stallproof.plan import new_plan
from stallproof.policies import policy_named
from stallproof.requests import copy_row, new_requests
from stallproof.scheduling import compute, schedule
from stallproof.tiers import GPU, RECOMPUTE_PAUSE, new_tiers, peak_pages

ROWS, PASSES, LONGEST = 6, 40, 64
MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16, "vocab_size": 128,
    "max_position_embeddings": 128, "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip

Decided = tuple[dict[str, int], list[str], int]
"""Tokens scheduled by request, requests preempted, pages left free."""


class TheirScheduler:
    """vLLM's, over ``gpu_pages`` blocks of ``page_tokens`` tokens."""

    def __init__(self, model: Path, gpu_pages: int, page_tokens: int, chunk_tokens: int, priorities: bool) -> None:
        import torch
        from vllm.config import CacheConfig, DeviceConfig, ModelConfig, SchedulerConfig, VllmConfig
        from vllm.v1.core.sched.scheduler import Scheduler
        from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
        from vllm.v1.structured_output import StructuredOutputManager

        config = VllmConfig(
            model_config=ModelConfig(
                model=str(model), skip_tokenizer_init=True, dtype="float32", max_model_len=LONGEST
            ),
            scheduler_config=SchedulerConfig(
                max_num_seqs=ROWS,
                max_num_batched_tokens=LONGEST,
                max_model_len=LONGEST,
                is_encoder_decoder=False,
                long_prefill_token_threshold=chunk_tokens,
                enable_chunked_prefill=True,
                policy="priority" if priorities else "fcfs",
                async_scheduling=False,
            ),
            cache_config=CacheConfig(block_size=page_tokens, enable_prefix_caching=False),
            device_config=DeviceConfig("cpu"),
        )
        blocks = gpu_pages + 1  # one of them is vLLM's null block
        config.cache_config.num_gpu_blocks, config.cache_config.block_size = blocks, page_tokens
        register_all_kvcache_specs(config)
        spec = FullAttentionSpec(block_size=page_tokens, num_kv_heads=4, head_size=16, dtype=torch.float32)
        pools = KVCacheConfig(
            num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)]
        )
        self.scheduler: Any = Scheduler(config, pools, StructuredOutputManager(config), block_size=page_tokens)

    def arrive(self, number: int, prompt: int, output: int, priority: int) -> None:
        """A request with these lengths arrives."""
        from vllm import SamplingParams
        from vllm.v1.request import Request

        sampling = SamplingParams(max_tokens=output, ignore_eos=True)
        sampling.update_from_generation_config({}, 2)
        name, at = f"R{number}", float(number)
        self.scheduler.add_request(Request(name, [5] * prompt, sampling, None, arrival_time=at, priority=priority))

    def run_pass(self) -> Decided:
        """One pass and its tokens."""
        from vllm.v1.outputs import ModelRunnerOutput

        output = self.scheduler.schedule()
        names = list(output.num_scheduled_tokens)
        requests = [self.scheduler.requests[name] for name in names]
        tokens = [[7] if request.num_computed_tokens >= request.num_tokens else [] for request in requests]
        places = {name: place for place, name in enumerate(names)}
        computed = ModelRunnerOutput(req_ids=names, req_id_to_index=places, sampled_token_ids=tokens)
        self.scheduler.update_from_output(output, computed)
        free = self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        return dict(output.num_scheduled_tokens), sorted(output.preempted_req_ids or ()), free


class OurScheduler:
    """The shipped pass with a policy, over a table of ROWS rows."""

    def __init__(self, policy: str, gpu_pages: int, page_tokens: int) -> None:
        self.rules = policy_named(policy).rules
        self.table, self.tiers = new_requests(ROWS), new_tiers(gpu_pages, 0, page_tokens)
        self.names: list[str] = []

    def arrive(self, number: int, prompt: int, output: int, priority: int) -> None:
        """The same, in its place by priority."""
        r = int(np.searchsorted(self.table.priority[: len(self.names)], priority, side="right"))
        for row in range(len(self.names), r, -1):
            copy_row(self.table, row - 1, self.table, row)
        for column in self.table:
            column[r] = 0
        self.table.phase[r], self.table.priority[r] = Phase.WAITING, priority
        self.table.tokens[r], self.table.output_left[r] = prompt, output
        self.names.insert(r, f"R{number}")

    def run_pass(self, chunk_tokens: int) -> Decided:
        """One pass and its tokens."""
        plan = new_plan(ROWS)
        schedule(self.table, self.tiers, self.rules, Limits(chunk_tokens), plan)
        scheduled = {name: int(plan.scheduled[r]) for r, name in enumerate(self.names) if plan.scheduled[r]}
        done = range(int(plan.operations[0]))
        paused = sorted(self.names[int(plan.request[k])] for k in done if plan.event[k] == RECOMPUTE_PAUSE)
        compute(self.table, self.tiers, plan)
        stay = [r for r in range(len(self.names)) if self.table.phase[r] != Phase.FINISHED]
        for column in self.table:
            kept = column[stay]
            column[:] = 0
            column[: len(stay)] = kept
        self.names = [self.names[r] for r in stay]
        return scheduled, paused, int(self.tiers.free[GPU])


def first_difference(model: Path, policy: str, seed: int) -> tuple[int, str]:
    """Passes that were equal, and what differs in the next, or ''."""
    rng = random.Random(seed)
    gpu_pages, chunk_tokens, page_tokens = rng.randint(3, 8), rng.randint(1, 3), rng.randint(1, 2)
    priorities = policy == "vllm-priority"
    ours = OurScheduler(policy, gpu_pages, page_tokens)
    theirs = TheirScheduler(model, gpu_pages, page_tokens, chunk_tokens, priorities)
    number = passes = 0
    for _ in range(PASSES):
        while len(ours.names) < ROWS and rng.random() < 0.4:
            prompt, output, priority = rng.randint(1, 4), rng.randint(1, 4), rng.randint(0, int(priorities))
            if peak_pages(prompt, output, page_tokens) <= gpu_pages:
                number += 1
                ours.arrive(number, prompt, output, priority)
                theirs.arrive(number, prompt, output, priority)
        if ours.names:
            mine = ours.run_pass(chunk_tokens if len(ours.names) > 1 else LONGEST)
            if mine != (engines := theirs.run_pass()):
                return passes, f"seed {seed}, pass {passes + 1}: ours {mine}, vLLM {engines}"
            passes += 1
    return passes, ""


def main() -> int:
    """Compare; print what differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--policy", choices=("vllm-fcfs", "vllm-priority"), default="vllm-fcfs")
    parser.add_argument("--runs", type=int, default=150)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder)
        (model / "config.json").write_text(json.dumps(MODEL))
        found = [first_difference(model, options.policy, seed) for seed in range(options.runs)]
    differences = [text for _, text in found if text]
    print(*differences, sep="\n" if differences else "")
    equal = f"{sum(passes for passes, _ in found):,} passes equal"
    print(f"{options.policy}: {equal}; {len(differences)} of {options.runs} runs differ")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
