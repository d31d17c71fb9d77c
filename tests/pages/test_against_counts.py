"""The page counts of the pass are the dumb second implementation: after every step the manager agrees with them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stallproof.errors import PageError
from stallproof.policies import POLICIES
from stallproof.requests import ACTIVE
from stallproof.tiers import ADMIT, CANCEL, FINISH, GROW, MIGRATE, RECOMPUTE_PAUSE, RESUME, SUSPEND

from .plans import plan_of
from .serving import ContentError, Serving

CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"))


class ManagerAgainstCounts(RuleBasedStateMachine):
    """Arrivals, passes, early stops and cancellations in any order, on small pools."""

    serving: Serving | None = None

    @initialize(
        policy=st.sampled_from(sorted(POLICIES)),
        gpu=st.integers(2, 7),
        host=st.integers(0, 5),
        page_tokens=st.integers(1, 3),
        chunk_tokens=st.integers(1, 4),
    )
    def start(self, policy, gpu, host, page_tokens, chunk_tokens):
        self.serving = Serving(POLICIES[policy], gpu, host, page_tokens, chunk_tokens)

    @precondition(lambda self: not self.serving.full)
    @rule(prompt=st.integers(1, 6), output=st.integers(1, 8))
    def arrive(self, prompt, output):
        self.serving.arrive(prompt, output)

    @rule()
    def run_pass(self):
        self.serving.run_pass()

    @rule(passes=st.integers(2, 5))
    def run_passes(self, passes):
        for _ in range(passes):
            self.serving.run_pass()
            self.serving.agrees()

    @precondition(lambda self: self.serving.ids)
    @rule(data=st.data())
    def cancel(self, data):
        self.serving.end(data.draw(st.integers(0, len(self.serving.ids) - 1)), CANCEL)

    @precondition(lambda self: (self.serving.requests.phase == ACTIVE).any())
    @rule(data=st.data())
    def stop(self, data):
        rows = np.flatnonzero(self.serving.requests.phase == ACTIVE).tolist()
        self.serving.end(data.draw(st.sampled_from(rows)), FINISH)

    @invariant()
    def manager_agrees(self):
        if self.serving is not None:
            self.serving.agrees()


TestManagerAgainstCounts = ManagerAgainstCounts.TestCase
TestManagerAgainstCounts.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


def walk(serving: Serving, steps: int, seed: int) -> Serving:
    """``steps`` steps at random: half of them arrivals if there is room, one in fifteen a cancellation."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        choice = rng.random()
        if choice < 0.5 and not serving.full:
            serving.arrive(int(rng.integers(1, 7)), int(rng.integers(1, 9)))
        elif choice > 0.93 and serving.ids:
            serving.end(int(rng.integers(len(serving.ids))), CANCEL)
        else:
            serving.run_pass()
        serving.agrees()
    return serving


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("policy", ["helix-published", "resident-first", "trtllm-v2"])
def test_a_long_walk_takes_every_kind_of_operation(policy, device):
    """Otherwise the agreement above would say little."""
    serving = walk(Serving(POLICIES[policy], 6, 3, 2, 3, device), 1500, seed=5)
    for event in (ADMIT, GROW, SUSPEND, MIGRATE, RESUME, RECOMPUTE_PAUSE, FINISH, CANCEL):
        assert serving.events[event] >= 10, event
    assert serving.split >= 10
    assert serving.manager.pages_offloaded == serving.amounts[MIGRATE] >= 10
    assert serving.manager.pages_onboarded == serving.amounts[RESUME] >= 10


def test_the_walk_sees_a_manager_that_copies_nothing(monkeypatch):
    """A check of the check: the counts agree all the same, the contents do not."""
    monkeypatch.setattr("stallproof.pages.transfers.Transfers._copy", lambda *_: None)
    with pytest.raises(ContentError, match=r"expected request .*; found "):
        walk(Serving(POLICIES["resident-first"], 6, 3, 2, 3), 1500, seed=5)


def test_the_walk_goes_on_after_a_refused_plan():
    """All or nothing in the middle of a run: the cancellation before the refused growth is not carried out either."""
    serving = walk(Serving(POLICIES["resident-first"], 6, 3, 2, 3), 200, seed=1)
    serving.arrive(1, 8)
    serving.run_pass()
    plan = plan_of((CANCEL, 0), (GROW, 0, 1))
    with pytest.raises(PageError, match=f"operation 1, grow of request {serving.ids[0]}"):
        serving.manager.carry_out(plan, serving.ids)
    serving.agrees()
    walk(serving, 200, seed=2)
