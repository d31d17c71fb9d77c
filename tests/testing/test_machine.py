"""The state machine: it finds what a scheduler does wrong, and leaves a good one alone."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from stallproof.lifecycle import Phase
from stallproof.observations import Pool, Standing
from stallproof.testing import LifecycleMachine, Look
from tests.stateful.own_pass import OwnPass

QUICK = settings(
    max_examples=300, stateful_step_count=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@dataclass
class Request:
    number: int
    tokens: int
    longest: int
    computed: int = 0
    pages: int = 0


class FirstCome(LifecycleMachine):
    """A scheduler of four pages of one token: a request starts when the pages of its longest length are free."""

    pool = Pool(gpu_pages=4, host_pages=0, page_tokens=1)

    def start(self):
        self.free, self.requests = 4, []

    def arrive(self, request, prompt, output):
        if prompt + output - 1 > 4:
            return False
        self.requests.append(Request(request, prompt, prompt + output))
        return True

    def cancel(self, request):
        (gone,) = (r for r in self.requests if r.number == request)
        self.leave(gone)

    def leave(self, request):
        self.free += request.pages
        self.requests.remove(request)

    def run_pass(self):
        scheduled = {}
        for request in list(self.requests):
            if not request.pages and not self.starts(request):
                break
            scheduled[request.number] = request.tokens - request.computed
            self.compute(request)
        return scheduled

    def starts(self, request):
        if request.longest - 1 > self.free:
            return False
        request.pages = request.longest - 1
        self.free -= request.pages
        return True

    def compute(self, request):
        request.computed = request.tokens
        request.tokens += 1
        if request.tokens == request.longest:
            self.leave(request)

    def look(self):
        requests = [
            Standing(r.number, Phase.ACTIVE if r.pages else Phase.WAITING, r.pages, 0, r.tokens, r.computed, r.longest)
            for r in self.requests
        ]
        return Look(requests, self.free)


class KeepsPages(FirstCome):
    def leave(self, request):
        self.requests.remove(request)


class FreesTwice(FirstCome):
    def cancel(self, request):
        self.free += sum(r.pages for r in self.requests if r.number == request)
        super().cancel(request)


class RefusesWhatFits(FirstCome):
    def arrive(self, request, prompt, output):
        return prompt + output - 1 < 4 and super().arrive(request, prompt, output)


class TakesWhatNeverFits(FirstCome):
    def arrive(self, request, prompt, output):
        self.requests.append(Request(request, prompt, prompt + output))
        return True


class ForgetsToStart(FirstCome):
    def starts(self, request):
        return len(self.requests) < 3 and super().starts(request)


class LosesTokens(FirstCome):
    def compute(self, request):
        super().compute(request)
        if request in self.requests and request.tokens > 2:
            request.tokens -= 2


class ComputesForEver(FirstCome):
    """Its last token but one is computed again and again."""

    def compute(self, request):
        super().compute(request)
        if request.tokens == request.longest - 1:
            request.tokens -= 1


def test_a_good_scheduler_passes():
    run_state_machine_as_test(FirstCome, settings=QUICK)


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (KeepsPages, "page-conservation is violated"),
        (FreesTwice, "page-conservation is violated"),
        (RefusesWhatFits, "was refused: it needs 4 pages at its longest, and the GPU has 4"),
        (TakesWhatNeverFits, "infeasible-refused is violated"),
        (ForgetsToStart, "no-dead-end is violated"),
        (LosesTokens, "tokens-preserved is violated"),
        (ComputesForEver, "the passes go round in a circle, computing tokens, and nobody finishes"),
    ],
)
def test_a_defect_is_found_and_named(machine, words):
    with pytest.raises(Exception, match=words):
        run_state_machine_as_test(machine, settings=QUICK)


def test_a_policy_that_breaks_a_claim_fails_with_the_shortest_run_of_its_graph():
    """Three requests and four pages without a host tier: the published policy ends in a dead end."""

    class Published(OwnPass):
        policy = "helix-published"
        pool = Pool(gpu_pages=4, host_pages=0, page_tokens=1)

    with pytest.raises(AssertionError, match="The shortest run of helix-published to the same:\nno-dead-end") as failed:
        run_state_machine_as_test(Published, settings=QUICK)
    assert "no pass computes a token any more" in str(failed.value)
