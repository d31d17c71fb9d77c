"""Workloads: when requests arrive and how long they are.

``read_workload`` reads a public trace as its publisher wrote it, ``conversation`` draws a workload
from figures measured on one, ``open_workload`` is the command line's choice between the two.
"""

from __future__ import annotations

from typing import Final

from stallproof.workloads.generated import DEFAULT_REQUESTS, conversation
from stallproof.workloads.reading import read_workload
from stallproof.workloads.workload import Workload, refuse_limit_below_one

__all__ = ["GENERATED", "Workload", "conversation", "open_workload", "read_workload"]

GENERATED: Final = "conversation"
"""The source that is generated. A file of that name is read as ``./conversation``."""


def open_workload(source: str, limit: int | None = None) -> Workload:
    """The workload the command line names: the word ``conversation``, or the path of a trace.

    ``limit`` is how many requests at most; without it a trace is read whole, and the generator
    draws its default number.
    """
    refuse_limit_below_one(limit)
    if source == GENERATED:
        return conversation(DEFAULT_REQUESTS if limit is None else limit)
    return read_workload(source, limit)
