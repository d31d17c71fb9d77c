"""A small serving loop: real passes on page counts, carried out by the page manager, contents checked."""

from __future__ import annotations

from collections import Counter

import numpy as np

from stallproof.limits import Limits
from stallproof.pages import ContentCheck, PageManager
from stallproof.plan import SELF, Plan, clear, new_plan, perform
from stallproof.policies import Policy
from stallproof.requests import (
    ACTIVE,
    FINISHED,
    NEW,
    SUSPENDED,
    Requests,
    clear_row,
    copy_row,
    live,
    new_requests,
    started,
)
from stallproof.scheduling import compute, schedule
from stallproof.tiers import ARRIVE, CANCEL, FINISH, GPU, RECOMPUTE_PAUSE, Tiers, new_tiers, peak_pages

ROWS = 6


class ContentError(AssertionError):
    """A token is not what was written."""


class Serving:
    """At most ROWS live requests. ``events`` counts what happened, ``split`` how often a request was on both tiers."""

    def __init__(
        self, policy: Policy, gpu: int, host: int, page_tokens: int, chunk_tokens: int, device: str = "cpu"
    ) -> None:
        self.policy, self.chunk_tokens = policy, chunk_tokens
        self.requests: Requests = new_requests(ROWS)
        self.tiers: Tiers = new_tiers(gpu, host, page_tokens)
        self.plan: Plan = new_plan(ROWS)
        self.manager = PageManager(gpu, host, page_tokens, device=device)
        self.content = ContentCheck(self.manager)
        self.ids: list[int] = []
        """Of the live requests, in the order of their rows."""
        self.generation: Counter[int] = Counter()
        self.arrived = 0
        self.events: Counter[int] = Counter()
        self.amounts: Counter[int] = Counter()
        self.split = 0

    @property
    def full(self) -> bool:
        return len(self.ids) == ROWS

    def arrive(self, prompt: int, output: int) -> bool:
        """A request arrives, if its peak fits the GPU."""
        if peak_pages(prompt, output, self.tiers.page_tokens) > self.tiers.capacity[GPU]:
            return False
        row = len(self.ids)
        clear(self.plan, Limits(self.chunk_tokens))
        perform(self.requests, self.tiers, self.plan, ARRIVE, row, 0, SELF)
        self.requests.tokens[row], self.requests.output_left[row] = prompt, output
        self.ids.append(1000 + 7 * self.arrived)
        self.arrived += 1
        self._carry_out(0)
        return True

    def end(self, row: int, event: int) -> None:
        """``row`` is cancelled, or stops early (finish)."""
        assert event in (CANCEL, FINISH)
        clear(self.plan, Limits(self.chunk_tokens))
        perform(self.requests, self.tiers, self.plan, event, row, 0, SELF)
        self._carry_out(0)
        self._close_up()

    def run_pass(self) -> None:
        """One pass; then its tokens are stamped and all of the scheduled requests' tokens verified."""
        schedule(self.requests, self.tiers, self.policy.rules, Limits(self.chunk_tokens), self.plan)
        decided = int(self.plan.operations[0])
        self._carry_out(0)
        rows = np.flatnonzero(self.plan.scheduled)
        computed = self.requests.computed[rows]
        after = computed + self.plan.scheduled[rows]
        ids, generations = self._named(rows)
        self.content.write(ids, generations, computed, after)
        self._verify(ids, generations, after)
        compute(self.requests, self.tiers, self.plan)
        self._carry_out(decided)
        self._close_up()

    def agrees(self) -> None:
        """Asserts that the manager has the pages the counts say, and that active requests have their contents."""
        manager = self.manager
        counted = [
            (int(gpu), int(host)) for gpu, host in zip(self.requests.gpu_pages, self.requests.host_pages, strict=True)
        ]
        has = [manager.pages_of(request) for request in self.ids]
        assert has + [(0, 0)] * (ROWS - len(has)) == counted
        assert (manager.gpu.free, manager.host.free) == tuple(self.tiers.free)
        manager.check()
        rows = [r for r in range(len(self.ids)) if self.requests.phase[r] == ACTIVE and started(self.requests, r)]
        ids, generations = self._named(rows)
        self._verify(ids, generations, self.requests.computed[rows])
        self.split += sum(
            self.requests.phase[r] == SUSPENDED and self.requests.gpu_pages[r] > 0 and self.requests.host_pages[r] > 0
            for r in range(ROWS)
        )

    def _verify(self, ids: list[int], generations: list[int], tokens: np.ndarray) -> None:
        found = self.content.verify(ids, generations, tokens)
        assert found.tokens == tokens.sum()
        if found.wrong or found.first:
            raise ContentError(str(found.first))

    def _carry_out(self, first: int) -> None:
        """Carry out the plan from operation ``first`` on."""
        self.manager.carry_out(self.plan, self.ids, first)
        for k in range(first, int(self.plan.operations[0])):
            event, row = int(self.plan.event[k]), int(self.plan.request[k])
            self.events[event] += 1
            self.amounts[event] += int(self.plan.amount[k])
            if event == RECOMPUTE_PAUSE:
                self.generation[self.ids[row]] += 1

    def _named(self, rows: np.ndarray | list[int]) -> tuple[list[int], list[int]]:
        ids = [self.ids[row] for row in rows]
        return ids, [self.generation[request] for request in ids]

    def _close_up(self) -> None:
        """Finished requests leave, the others keep their order: rows change, ids do not."""
        kept = [r for r in range(len(self.ids)) if live(self.requests, r)]
        assert all(self.requests.phase[r] == FINISHED for r in range(len(self.ids)) if r not in kept)
        for target, source in enumerate(kept):
            copy_row(self.requests, source, self.requests, target)
        for row in range(len(kept), ROWS):
            clear_row(self.requests, row, NEW)
        self.ids = [self.ids[r] for r in kept]
