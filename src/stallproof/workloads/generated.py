"""A workload drawn from figures measured on a real trace.

The figures are quantiles of the first 1,000 of the 12,031 rows of Mooncake's conversation trace
(kvcache-ai/Mooncake, FAST25-release/traces/conversation_trace.jsonl at 3b5a5941, Apache-2.0): 41 each,
at 0, 1/40, ..., 1, of ``input_length``, of ``output_length`` and of the 999 gaps between neighbouring
timestamps. The project carries these figures and no row of the trace. To measure them again::

    import numpy as np
    from stallproof.workloads import read_workload

    trace = read_workload("conversation_trace.jsonl", limit=1000)
    gaps = 1000 * np.diff(trace.arrival_seconds)  # milliseconds
    for column in trace.prompt_tokens, trace.output_tokens, gaps:
        print(np.rint(np.quantile(column, np.linspace(0, 1, 41))).astype(int).tolist())

A value is drawn by inverse transform: the quantile at a uniform number, linear between the ones known,
lengths rounded to whole tokens.

What the draw does not keep:

* Prompt and output are drawn independently. Over the 1,000 rows their rank correlation (Spearman) is
  0.095, so little is lost. Which requests share a prefix is lost altogether.
* Neighbouring gaps are independent too; in the trace their rank correlation is -0.12.
* The trace rounds its timestamps to steps of 3 s, so 89% of its gaps are 0 and the rest about 3 s:
  requests arrive in batches. The draw has 87.5% at exactly 0, and up to 2.5% that fall between 0
  and 3 s, which the trace never has.
* Within the last fortieth, up to the maximum, the density is flat. The means come out 1% high for
  prompts (13,867 against 13,733 tokens) and 2% for outputs (356 against 349) and gaps (337 against 330 ms).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stallproof.errors import UsageError
from stallproof.workloads.workload import Float64s, Workload

DEFAULT_REQUESTS: Final = 300

# fmt: off
PROMPT_TOKENS: Final = (
    891, 897, 908, 939, 1056, 1206, 1427, 1727, 1904, 2290, 2874, 3612, 4131, 4572, 5142, 5687, 6132,
    6604, 7037, 7695, 8430, 8879, 9542, 10170, 10903, 11736, 12997, 14042, 15272, 16278, 17451, 18711,
    19976, 21441, 24149, 26353, 28887, 36795, 45726, 69702, 121924,
)
OUTPUT_TOKENS: Final = (
    1, 3, 11, 17, 25, 31, 44, 73, 107, 124, 165, 195, 227, 246, 270, 293, 312, 327, 345, 356, 365, 378,
    389, 402, 414, 424, 439, 452, 459, 472, 490, 508, 521, 537, 555, 571, 599, 621, 666, 821, 2000,
)
# fmt: on
GAP_MILLISECONDS: Final = (*(0,) * 36, 2999, 3000, 3000, 3000, 3001)


def conversation(requests: int = DEFAULT_REQUESTS, seed: int = 0) -> Workload:
    """``requests`` requests like those of Mooncake's conversation trace; see the top of this file.

    The same seed gives the same requests, and asking for fewer gives the first of them: each column
    has its own stream of random numbers.
    """
    if requests < 1:
        raise UsageError(f"{requests} requests cannot be generated", remedy="Ask for at least 1.")
    if seed < 0:
        raise UsageError(f"the seed is {seed}, which is negative", remedy="Use 0 or more.")
    prompts, outputs, gaps = (
        np.random.Generator(np.random.PCG64(stream)).random(requests)
        for stream in np.random.SeedSequence(seed).spawn(3)
    )
    arrival_milliseconds = np.concatenate([[0.0], np.cumsum(at_quantile(GAP_MILLISECONDS, gaps[1:]))])
    return Workload(
        name="conversation",
        arrival_seconds=arrival_milliseconds / 1000,
        prompt_tokens=np.rint(at_quantile(PROMPT_TOKENS, prompts)).astype(np.int64),
        output_tokens=np.rint(at_quantile(OUTPUT_TOKENS, outputs)).astype(np.int64),
        skipped=0,
    )


def at_quantile(table: tuple[int, ...], levels: Float64s) -> Float64s:
    """The value at each level in [0, 1], linear between the evenly spaced quantiles of ``table``."""
    return np.interp(levels, np.linspace(0, 1, len(table)), np.asarray(table, np.float64))
