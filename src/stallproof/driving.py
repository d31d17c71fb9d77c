"""Drive an engine over a workload: arrivals in, passes until everybody is done, one result out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stallproof.claims import Checks
from stallproof.engine import Engine
from stallproof.errors import EXIT_HOLDS, EXIT_VIOLATED, PoolTooSmall, UsageError
from stallproof.observations import Observation
from stallproof.outcomes import Refusal, Violation
from stallproof.policies import Policy
from stallproof.tiers import peak_pages
from stallproof.workloads import Workload

if TYPE_CHECKING:
    from stallproof.pages import PageManager


PAGE_TOKENS, CHUNK_TOKENS, PASS_SECONDS = 64, 2048, 0.03
"""What a drive takes if it is told nothing: tokens a page, prefill tokens a pass, the workload's seconds a pass."""


class Progress(NamedTuple):
    """How far a drive is."""

    passes: int
    finished: int
    refused: int
    requests: int
    live: int
    gpu_used: int


@dataclass(frozen=True)
class DriveResult:
    """What a drive did. ``refused`` maps a request's place in the workload (from 0) to the reason.

    ``completion_passes``: of each finished request, in the order in which they finished, the passes from
    its arrival until it was done.
    """

    engine: Engine
    workload: Workload
    refused: dict[int, str]
    completion_passes: tuple[int, ...]
    seconds: float

    @property
    def exit_code(self) -> int:
        """0 if no claim was violated and no content was wrong, else 1."""
        return EXIT_VIOLATED if self.engine.violations or self.engine.counts.content_errors else EXIT_HOLDS

    def as_json(self) -> dict[str, Any]:
        """Plain values for a JSON file. What was not checked is null."""
        counts: dict[str, Any] = asdict(self.engine.counts)
        unchecked = Checks(self.engine.checks) is Checks.OFF
        if unchecked:
            counts |= dict.fromkeys(("useless_victims", "content_checks", "content_errors"))
        policy = self.engine.policy
        return {
            "workload": self.workload.name,
            "policy": policy if isinstance(policy, str) else policy.name,
            "gpu_pages": self.engine.gpu_pages,
            "host_pages": self.engine.host_pages,
            "page_tokens": self.engine.page_tokens,
            "chunk_tokens": self.engine.chunk_tokens,
            "requests": len(self.workload),
            "refused": len(self.refused),
            "refusals": {str(place): reason for place, reason in self.refused.items()},
            "skipped": self.workload.skipped,
            **counts,
            "violations": None if unchecked else len(self.engine.violations),
            "violated": None if unchecked else sorted({violation.property for violation in self.engine.violations}),
            "seconds": round(self.seconds, 3),
        }


MOST_TOKENS_MEASURED = 50_000_000
"""Output tokens of a workload whose peak demand is measured by running it."""


def largest_peak(workload: Workload, page_tokens: int) -> int:
    """Pages of the request that needs most."""
    return int(
        max(
            peak_pages(int(p), int(o), page_tokens)
            for p, o in zip(workload.prompt_tokens, workload.output_tokens, strict=True)
        )
    )


def drive(
    workload: Workload,
    *,
    policy: Policy | str = "resident-first",
    gpu_pages: int,
    host_pages: int = 0,
    page_tokens: int = PAGE_TOKENS,
    chunk_tokens: int = CHUNK_TOKENS,
    checks: Checks | str = Checks.FULL,
    pages: PageManager | None = None,
    burst: bool = False,
    pass_seconds: float = PASS_SECONDS,
    progress: Callable[[Progress], None] | None = None,
    on_violation: Callable[[Violation], None] | None = None,
    observer: Callable[[Observation], None] | None = None,
) -> DriveResult:
    """Run every request of ``workload`` to its end.

    ``observer``: is told what happens, as by an :class:`~stallproof.engine.Engine`.
    A pass takes ``pass_seconds`` of the workload's time; with ``burst`` everything arrives at once.
    Raises PoolTooSmall if no request can ever fit, and Stall if the engine stalls.
    """
    engine = Engine(
        policy=policy,
        gpu_pages=gpu_pages,
        host_pages=host_pages,
        page_tokens=page_tokens,
        chunk_tokens=chunk_tokens,
        checks=checks,
        pages=pages,
        on_violation=on_violation,
        observer=observer,
    )
    _refuse_hopeless_pool(workload, gpu_pages, page_tokens)
    arrivals = np.zeros(len(workload)) if burst else workload.arrival_seconds
    refused: dict[int, str] = {}
    passes_at_arrival: dict[int, int] = {}
    completion_passes: list[int] = []
    began, now, next_arrival = perf_counter(), 0.0, 0
    while next_arrival < len(workload) or engine.live:
        if not engine.live:
            now = max(now, float(arrivals[next_arrival]))
        while next_arrival < len(workload) and arrivals[next_arrival] <= now:
            outcome = engine.submit(
                int(workload.prompt_tokens[next_arrival]), int(workload.output_tokens[next_arrival])
            )
            if isinstance(outcome, Refusal):
                refused[next_arrival] = str(outcome)
            else:
                passes_at_arrival[outcome] = engine.counts.passes
            next_arrival += 1
        if engine.live:
            finished = engine.run_pass()
            completion_passes.extend(engine.counts.passes - passes_at_arrival.pop(request) for request in finished)
        now += pass_seconds
        if progress is not None:
            counts = engine.counts
            progress(
                Progress(
                    counts.passes, counts.finished, len(refused), len(workload), engine.live, engine.gpu_pages_used
                )
            )
    return DriveResult(engine, workload, refused, tuple(completion_passes), perf_counter() - began)


def _refuse_hopeless_pool(workload: Workload, gpu_pages: int, page_tokens: int) -> None:
    peaks = [
        peak_pages(int(p), int(o), page_tokens)
        for p, o in zip(workload.prompt_tokens, workload.output_tokens, strict=True)
    ]
    if min(peaks) > gpu_pages:
        raise PoolTooSmall(
            f"no request of '{workload.name}' can ever fit {gpu_pages} GPU pages of {page_tokens} tokens: "
            f"the smallest needs {min(peaks)}, the largest {max(peaks)}",
            "--gpu-pages",
            f"Give at least {max(peaks)} pages to accept every request.",
        )


def peak_demand(workload: Workload, *, page_tokens: int, chunk_tokens: int, burst: bool, pass_seconds: float) -> int:
    """The most GPU pages in use at once if pages never run out: the workload driven over an unlimited pool."""
    if int(workload.output_tokens.sum()) > MOST_TOKENS_MEASURED:
        raise UsageError(
            f"the outputs of '{workload.name}' add up to {int(workload.output_tokens.sum()):,} tokens: measuring "
            "their peak demand would take hours",
            "--gpu-pages",
            "Give the number of pages, or fewer requests with --limit.",
        )
    unlimited = sum(
        peak_pages(int(p), int(o), page_tokens)
        for p, o in zip(workload.prompt_tokens, workload.output_tokens, strict=True)
    )
    result = drive(
        workload,
        gpu_pages=int(unlimited),
        page_tokens=page_tokens,
        chunk_tokens=chunk_tokens,
        checks=Checks.OFF,
        burst=burst,
        pass_seconds=pass_seconds,
    )
    return result.engine.counts.peak_gpu_pages


def default_pools(
    workload: Workload, *, page_tokens: int, chunk_tokens: int, burst: bool, pass_seconds: float
) -> tuple[int, int]:
    """GPU and host pages that hurt: half of the peak demand, but room for the largest request; host half of that."""
    demand = peak_demand(
        workload, page_tokens=page_tokens, chunk_tokens=chunk_tokens, burst=burst, pass_seconds=pass_seconds
    )
    gpu = max((demand + 1) // 2, largest_peak(workload, page_tokens))
    return gpu, gpu // 2
