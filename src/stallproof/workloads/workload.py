"""The workload itself: three columns, one row a request, rows in order of arrival."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stallproof.errors import UsageError

Float64s = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Workload:
    """Requests in order of arrival. Every prompt and every output has at least one token."""

    name: str
    """What the workload was read or drawn from: a file's name, or the generator's."""
    arrival_seconds: Float64s
    """Since the first request that is kept, so the first is 0; never decreasing."""
    prompt_tokens: Int64s
    output_tokens: Int64s
    skipped: int
    """Rows passed over because they record no work (no token generated, a failed call)."""

    def __len__(self) -> int:
        return len(self.arrival_seconds)

    def first(self, n: int) -> Workload:
        """The ``n`` requests that arrive first, or all of them. ``skipped`` stays the whole's."""
        refuse_limit_below_one(n)
        return replace(
            self,
            arrival_seconds=self.arrival_seconds[:n],
            prompt_tokens=self.prompt_tokens[:n],
            output_tokens=self.output_tokens[:n],
        )


def refuse_limit_below_one(limit: int | None) -> None:
    """A limit of no request, or of fewer, is a mistake; ``None`` is no limit."""
    if limit is not None and limit < 1:
        raise UsageError(
            f"the limit on requests is {limit}, which leaves none",
            remedy="Ask for at least 1, or leave the limit out.",
        )
