"""A vLLM scheduler without an engine: a made-up token comes back for every complete request."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 128,
    "max_position_embeddings": 4096, "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def model_folder() -> str:
    """A folder with the configuration of a tiny model."""
    folder = Path(tempfile.mkdtemp())
    (folder / "config.json").write_text(json.dumps(MODEL))
    return str(folder)


def scheduler_of(cls: type[Any], gpu_pages: int, page_tokens: int = 16, longest: int = 1024, requests: int = 64) -> Any:
    """A scheduler of class ``cls`` over so many blocks, and the null block beside."""
    import torch
    from vllm.config import CacheConfig, DeviceConfig, ModelConfig, SchedulerConfig, VllmConfig
    from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.structured_output import StructuredOutputManager

    config = VllmConfig(
        model_config=ModelConfig(
            model=model_folder(), skip_tokenizer_init=True, dtype="float32", max_model_len=longest
        ),
        scheduler_config=SchedulerConfig(
            max_num_seqs=requests,
            max_num_batched_tokens=max(8192, longest),
            max_model_len=longest,
            is_encoder_decoder=False,
            enable_chunked_prefill=True,
            async_scheduling="Async" in cls.__name__,
        ),
        cache_config=CacheConfig(block_size=page_tokens, enable_prefix_caching=False),
        device_config=DeviceConfig("cpu"),
    )
    config.scheduler_config.async_scheduling = "Async" in cls.__name__
    config.cache_config.num_gpu_blocks, config.cache_config.block_size = gpu_pages + 1, page_tokens
    register_all_kvcache_specs(config)
    spec = FullAttentionSpec(block_size=page_tokens, num_kv_heads=2, head_size=32, dtype=torch.float32)
    pools = KVCacheConfig(
        num_blocks=gpu_pages + 1, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)]
    )
    return cls(config, pools, StructuredOutputManager(config), block_size=page_tokens)


def request_of(number: int, prompt: int, output: int) -> Any:
    """A request named ``r<number>``."""
    from vllm import SamplingParams
    from vllm.v1.request import Request

    sampling = SamplingParams(max_tokens=output, ignore_eos=True)
    sampling.update_from_generation_config({}, 2)
    return Request(f"r{number}", [5] * prompt, sampling, None, arrival_time=float(number))


def results_of(scheduler: Any, output: Any) -> Any:
    """A token for every request that this pass completes."""
    from vllm.v1.outputs import ModelRunnerOutput

    names = list(output.num_scheduled_tokens)
    tokens = []
    for name in names:
        request = scheduler.requests.get(name)
        done = request is not None and request.num_computed_tokens >= request.num_prompt_tokens
        tokens.append([7] if done and request.num_computed_tokens >= request.num_tokens else [])
    places = {name: place for place, name in enumerate(names)}
    return ModelRunnerOutput(req_ids=names, req_id_to_index=places, sampled_token_ids=tokens)


def run_pass(scheduler: Any) -> Any:
    """One pass and its results. Returns the scheduler's output."""
    output = scheduler.schedule()
    scheduler.update_from_output(output, results_of(scheduler, output))
    return output


def stale(cls: type[Any]) -> type[Any]:
    """The fault of a public report: after a pass, a copy of the running list made before it is put back."""

    class StaleRunningList(cls):  # type: ignore[misc]
        """Those preempted in a pass stay on the running list."""

        def schedule(self, *args: Any, **kwargs: Any) -> Any:
            before = list(self.running)
            output = super().schedule(*args, **kwargs)
            if output.preempted_req_ids or any(r.status.name == "PREEMPTED" for r in before):
                self.running = before
            return output

    return StaleRunningList
