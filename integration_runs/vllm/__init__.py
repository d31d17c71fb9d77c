"""Runs of real vLLM schedulers under the watcher. They need vLLM, which is none of our requirements: ``make vllm``."""
