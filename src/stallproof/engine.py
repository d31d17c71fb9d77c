"""The engine: the one mutable loop. A pass, its plan carried out on pages, its tokens computed.

::

    submit -> [table] -> schedule -> plan -> pages -> forward (stamps) -> compute -> [table] -> finished
                                       \\______________ replay, properties ______________/

The table holds the live requests in arrival order; a finished one leaves and the rest close up, as
in the explored model. With pages, each computed token is written as a stamp into the request's
pages; there is no neural network here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stallproof.bounds import MOST_SIZE
from stallproof.claims import SAMPLE_EVERY, Checks, Kind
from stallproof.errors import RuleRaised, StallproofError, UsageError
from stallproof.lifecycle import Event, Phase
from stallproof.limits import Limits
from stallproof.observations import Change, Observation, Standing
from stallproof.observing import arrival, observations_of, standing_of
from stallproof.outcomes import (
    AllocationFailure,
    Counts,
    Refusal,
    Stall,
    Violation,
    failure_report,
    stall_report,
)
from stallproof.plan import clear
from stallproof.policies import Policy, policy_named
from stallproof.properties import PROPERTIES, facts
from stallproof.requests import FINISHED, copy_requests
from stallproof.scheduling import compute, schedule
from stallproof.tiers import (
    ARRIVE,
    CANCEL,
    GPU,
    MIGRATE,
    RECOMPUTE_PAUSE,
    RESUME,
    SUSPEND,
    apply,
    peak_pages,
)
from stallproof.witness import begin, first_rows, new_step, replay

if TYPE_CHECKING:
    from stallproof.pages import PageManager


@dataclass
class Engine:
    """Schedules requests over two tiers of pages, with real pages if ``pages`` is given.

    ``pages``: a :class:`stallproof.pages.PageManager` of the same sizes. ``observer``: is told everything that happens
    (:meth:`stallproof.monitor.Monitor.observe`, say); what it raises comes out when the pass is over. Raises UsageError
    for sizes that make no sense and UnknownPolicy for a policy name that is not there.
    """

    policy: Policy | str = "resident-first"
    gpu_pages: int = 1024
    host_pages: int = 0
    page_tokens: int = 64
    chunk_tokens: int = 2048
    checks: Checks | str = Checks.FULL
    pages: PageManager | None = None
    on_violation: Callable[[Violation], None] | None = None
    observer: Callable[[Observation], None] | None = None
    counts: Counts = field(default_factory=Counts)
    violations: list[Violation] = field(default_factory=list)
    content_errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name, least in (("gpu_pages", 1), ("host_pages", 0), ("page_tokens", 1), ("chunk_tokens", 1)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or not least <= value <= MOST_SIZE:
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{value} is out of range", option, f"Give a number from {least} to {MOST_SIZE}.")
        self._policy = policy_named(self.policy) if isinstance(self.policy, str) else self.policy
        self._checks = Checks.named(self.checks)
        self._room = 64
        self._limits = Limits(self.chunk_tokens)
        self._whole = new_step(self._room, self.gpu_pages, self.host_pages, self.page_tokens, self._limits)
        self._ids = np.zeros(self._room, np.int64)
        self._generations = np.zeros(self._room, np.int64)
        self._n = 0
        self._submitted = 0
        self._step = first_rows(self._whole, 0)
        self._seen_since_progress: set[bytes] = set()
        self._content = None
        self._broken = ""
        if self.pages is not None:
            self._require_pages_that_fit(self.pages)
            from stallproof.pages import ContentCheck

            self._content = ContentCheck(self.pages)

    def _require_pages_that_fit(self, pages: PageManager) -> None:
        """Raises UsageError if the manager has other sizes than the engine, or serves somebody already."""
        has = (pages.gpu.pages, pages.host.pages, pages.page_tokens)
        if has != (self.gpu_pages, self.host_pages, self.page_tokens):
            raise UsageError(
                f"the page manager has {has[0]} GPU and {has[1]} host pages of {has[2]} tokens, the engine "
                f"{self.gpu_pages} and {self.host_pages} of {self.page_tokens}",
                "pages",
                "Make both with the same sizes.",
            )
        if pages.gpu.free < has[0] or pages.host.free < has[1]:
            raise UsageError("the page manager serves somebody already", "pages", "Give each engine one of its own.")

    def _require_whole(self) -> None:
        if self._broken:
            raise UsageError(
                f"the engine stopped in the middle of a pass ({self._broken}): its counts and pages no longer agree",
                remedy="Make a new engine, with a new page manager.",
            )

    # -- requests -----------------------------------------------------------------------------------

    @property
    def live(self) -> int:
        """Requests that have arrived and not finished."""
        return self._n

    @property
    def gpu_pages_used(self) -> int:
        """GPU pages that requests have now."""
        return self.gpu_pages - int(self._step.tiers.free[GPU])

    def standing(self) -> list[Standing]:
        """Where every live request stands, in order of arrival."""
        return standing_of(self._step.after, self._ids[: self._n].tolist())

    def submit(self, prompt_tokens: int, output_tokens: int) -> int | Refusal:
        """A request arrives behind all others. Returns its id, or why it is refused. Lengths are at least 1."""
        self._require_whole()
        if not (_is_length(prompt_tokens) and _is_length(output_tokens)):
            raise UsageError(
                f"a request of {prompt_tokens!r} prompt and {output_tokens!r} output tokens",
                remedy=f"Each must be from 1 to {MOST_SIZE}.",
            )
        peak = peak_pages(prompt_tokens, output_tokens, self.page_tokens)
        if peak > self.gpu_pages:
            return Refusal(int(peak), self.gpu_pages)
        if self._n == self._room:
            self._grow()
        r, self._n = self._n, self._n + 1
        self._step = first_rows(self._whole, self._n)
        table, tiers = self._step.after, self._step.tiers
        table.phase[r] = Phase.NEW
        apply(table, tiers, ARRIVE, r, 0)
        table.tokens[r], table.output_left[r] = prompt_tokens, output_tokens
        self._ids[r], self._generations[r] = self._submitted, 0
        self._submitted += 1
        self._seen_since_progress.clear()
        if self.observer is not None:
            self.observer(arrival(int(self._ids[r]), prompt_tokens, output_tokens))
        return int(self._ids[r])

    def cancel(self, request: int) -> None:
        """Cancel a live request and release everything it has. Raises UsageError if it is not live."""
        self._require_whole()
        rows = np.flatnonzero(self._ids[: self._n] == request)
        if not len(rows):
            raise UsageError(f"request {request} is not live", remedy="It may have finished.")
        r, step = int(rows[0]), self._step
        clear(step.plan, self._limits)
        apply(step.after, step.tiers, CANCEL, r, 0)
        step.plan.event[0], step.plan.request[0], step.plan.operations[0] = CANCEL, r, 1
        if self.pages is not None:
            self.pages.carry_out(step.plan, self._ids[: self._n])
        self.counts.cancelled += 1
        self._close_up()
        if self.observer is not None:
            self.observer(Change(Event.CANCEL, request, 0, 0))

    # -- a pass -------------------------------------------------------------------------------------

    def run_pass(self) -> list[int]:
        """One pass over the live requests. Returns the ids of those that finished.

        Raises Stall if nothing can ever change again unless a request arrives or is cancelled, and
        AllocationFailure, which is one, if the policy raises. The pass that failed has then changed nothing.
        """
        self._require_whole()
        step, counts = self._step, self.counts
        counts.passes += 1
        if self._n == 0:
            return []
        checked = self._checks is Checks.FULL or (self._checks is Checks.SAMPLE and counts.passes % SAMPLE_EVERY == 0)
        copy_requests(step.after, step.before)
        step.tiers_before.free[:], step.tiers_before.held[:] = step.tiers.free, step.tiers.held
        begin(step, 1)
        try:
            schedule(step.after, step.tiers, self._policy.rules, self._limits, step.plan)
            if step.plan.failed[0]:
                raise AllocationFailure(self._failure())
        except Exception as error:  # a policy that asks for the illegal: as if there had been no pass
            begin(step, 1)
            if isinstance(error, StallproofError):
                raise
            raise RuleRaised(self._policy.name, error) from error
        decided = int(step.plan.operations[0])
        counts.peak_gpu_pages = max(counts.peak_gpu_pages, self.gpu_pages - int(step.tiers.free[GPU]))
        self._count_operations(decided)
        try:
            if self.pages is not None:
                self.pages.carry_out(step.plan, self._ids[: self._n], 0, decided)
                self._forward(checked)
            counts.tokens += int(compute(step.after, step.tiers, step.plan))
            if self.pages is not None:
                self.pages.carry_out(step.plan, self._ids[: self._n], decided)
        except Exception as error:
            self._broken = str(error)
            raise
        try:
            if self.observer is not None:
                for seen in observations_of(step, counts.passes, self._ids[: self._n].tolist()):
                    self.observer(seen)
            if checked:
                self._check_properties()
            self._watch_progress()
        finally:
            left = self._close_up()
        return left

    def _failure(self) -> str:
        step, ids = self._step, self._ids[: self._n].tolist()
        policy, passes = self._policy, self.counts.passes
        return failure_report(
            policy.name, policy.raises, passes, step.before, step.tiers_before, ids, self.chunk_tokens
        )

    def _count_operations(self, decided: int) -> None:
        events = self._step.plan.event[:decided]
        amounts = self._step.plan.amount[:decided]
        counts = self.counts
        counts.suspends += int((events == SUSPEND).sum())
        counts.resumes += int((events == RESUME).sum())
        counts.pages_offloaded += int(amounts[events == MIGRATE].sum())
        counts.pages_onboarded += int(amounts[events == RESUME].sum())
        paused = self._step.plan.request[:decided][events == RECOMPUTE_PAUSE]
        counts.recompute_pauses += len(paused)
        counts.recomputed_tokens += int(self._step.before.computed[paused].sum())
        self._generations[paused] += 1

    def _forward(self, checked: bool) -> None:
        """Write the scheduled tokens; then look at every token of every scheduled request, if ``checked``."""
        assert self._content is not None  # there is a checker wherever there are pages
        table, plan = self._step.after, self._step.plan
        rows = np.flatnonzero(plan.scheduled)
        if not len(rows):
            return
        ids, generations = self._ids[rows], self._generations[rows]
        first = table.computed[rows]
        last = first + plan.scheduled[rows]
        self._content.write(ids, generations, first, last)
        if checked:
            found = self._content.verify(ids, generations, last)
            self.counts.content_checks += int(last.sum())
            self.counts.content_errors += found.wrong
            if found.first is not None:
                self.content_errors.append(f"pass {self.counts.passes}: {found.first}")

    def _check_properties(self) -> None:
        step = self._step
        replay(step)
        given_up = step.give_ups
        n = int(given_up.number[0])
        self.counts.useless_victims += int(
            ((given_up.event[:n] == RECOMPUTE_PAUSE) & (given_up.available_after[:n] <= given_up.available[:n])).sum()
        )
        bits = int(facts(step))
        for k, claim in enumerate(PROPERTIES):
            if claim.kind is Kind.ALWAYS and bits >> k & 1 and claim.name not in self._policy.unclaimed:
                self._violated(Violation(claim.name, claim.sentence, self.counts.passes))

    def _violated(self, violation: Violation) -> None:
        self.violations.append(violation)
        if self.on_violation is not None:
            self.on_violation(violation)

    def _watch_progress(self) -> None:
        """A pass is a function of the table: without a token, the same table again means the same for ever."""
        step = self._step
        if self._n == 0 or step.plan.scheduled.any():
            self._seen_since_progress.clear()
            return
        state = b"".join(column.tobytes() for column in step.after)
        if int(step.plan.operations[0]) == 0 or state in self._seen_since_progress:
            ids = self._ids[: self._n].tolist()
            raise Stall(stall_report(self.counts.passes, step.after, step.tiers, ids, self.chunk_tokens))
        self._seen_since_progress.add(state)

    def _close_up(self) -> list[int]:
        """Finished requests leave; the others close up. Returns the ids of those that left."""
        n, table = self._n, self._step.after
        gone = table.phase == FINISHED
        if not gone.any():
            return []
        left = self._ids[:n][gone].tolist()
        stay = ~gone
        kept = int(stay.sum())
        for column in (*table, self._ids[:n], self._generations[:n]):
            column[:kept] = column[stay]
        table.phase[kept:] = Phase.NEW
        for column in table:
            column[kept:] = 0
        self._n = kept
        self._step = first_rows(self._whole, kept)
        self.counts.finished = self._submitted - kept - self.counts.cancelled
        return left

    def _grow(self) -> None:
        self._room *= 2
        larger = new_step(self._room, self.gpu_pages, self.host_pages, self.page_tokens, self._limits)
        for old, new in zip(self._whole.after, larger.after, strict=True):
            new[: len(old)] = old
        larger.tiers.free[:], larger.tiers.held[:] = self._whole.tiers.free, self._whole.tiers.held
        larger.plan.fired[:] = self._whole.plan.fired
        self._whole = larger
        self._ids = np.concatenate([self._ids, np.zeros_like(self._ids)])
        self._generations = np.concatenate([self._generations, np.zeros_like(self._generations)])


def _is_length(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 1 <= int(value) <= MOST_SIZE
