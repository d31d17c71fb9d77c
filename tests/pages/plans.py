"""Plans written by hand: operations that no pass decided."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from stallproof.plan import Plan, new_plan

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]

IDS = [40, 41, 42, 43]
"""Stable ids of rows 0 to 3: never equal to a row."""


def plan_of(*operations: Sequence[int]) -> Plan:
    """A plan of (event, row) or (event, row, amount) in this order; the counts are nobody's business."""
    plan = new_plan(len(operations) + 1)
    for k, (event, row, *amount) in enumerate(operations):
        plan.event[k], plan.request[k], plan.amount[k] = event, row, sum(amount)
    plan.operations[0] = len(operations)
    return plan
