"""Writes traces in the real formats. The values are invented; no row comes from a trace."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

Row = tuple[int, int, int]
"""Time in the format's smallest unit (ms, 100 ns, s), prompt tokens, output tokens."""

AZURE_HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
BURSTGPT_HEADER = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
BURSTGPT_2024_HEADER = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type"


def mooncake_line(time: int, prompt: int, output: int) -> str:
    blocks = list(range(-(-prompt // 512)))[:4]
    return json.dumps({"timestamp": time, "input_length": prompt, "output_length": output, "hash_ids": blocks})


def azure_line(time: int, prompt: int, output: int) -> str:
    seconds, ticks = divmod(time, 10**7)
    clock = datetime(2031, 2, 3, 4, 5, 6) + timedelta(seconds=seconds)
    return f"{clock}.{ticks:07d},{prompt},{output}"


def burstgpt_line(time: int, prompt: int, output: int) -> str:
    return f"{time},A-1,{prompt},{output},{prompt + output},Conversation log"


def mooncake(rows: Sequence[Row]) -> list[str]:
    return [mooncake_line(*row) for row in rows]


def azure(rows: Sequence[Row]) -> list[str]:
    return [AZURE_HEADER, *(azure_line(*row) for row in rows)]


def burstgpt(rows: Sequence[Row]) -> list[str]:
    return [BURSTGPT_HEADER, *(burstgpt_line(*row) for row in rows)]


FORMATS: dict[str, tuple[Callable[[Sequence[Row]], list[str]], int]] = {
    "mooncake": (mooncake, 10**3),
    "azure": (azure, 10**7),
    "burstgpt": (burstgpt, 1),
}
"""For each format: how to write its lines, and how many of its smallest units make a second."""
