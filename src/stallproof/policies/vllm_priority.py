"""``vllm-priority``: vLLM 0.32.0 with scheduling policy ``priority``.

As ``vllm-fcfs``, but the waiting queue and the choice of a victim go by (priority, arrival), which is the
order of our table. Our reading differs in one point: vLLM walks the running requests in the order of their
admission and may take back the pages of a victim that this pass has served already; we walk them in the
order of the table, so whoever would lose its pages again never gets them. The pages end up the same; but
when vLLM's requester is itself the last in that order the walk ends, and running requests of a higher
priority that were admitted later miss one step, which ours do not.

Not claimed, beside what ``vllm-fcfs`` does not: ``no-priority-inversion``. Nobody is preempted for a
request that waits, so lower priorities run on while a higher one does not fit.
"""

from __future__ import annotations

from dataclasses import replace

from stallproof.policies.vllm_fcfs import VLLM_FCFS

VLLM_PRIORITY = replace(
    VLLM_FCFS,
    name="vllm-priority",
    summary="our reading of vLLM 0.32 with priorities: the victim is the newest of the lowest priority",
)
