"""Driving an engine over workloads: everybody is served or refused, and the counts add up."""

from __future__ import annotations

import json

import numpy as np
import pytest

from stallproof.claims import Checks
from stallproof.driving import default_pools, drive, largest_peak, peak_demand
from stallproof.errors import PoolTooSmall, UsageError
from stallproof.outcomes import Stall
from stallproof.pages import PageManager
from stallproof.workloads import Workload, conversation

PACE = {"burst": False, "pass_seconds": 0.03}
SIZES = {"page_tokens": 64, "chunk_tokens": 2048}


def workload(*requests: tuple[float, int, int]) -> Workload:
    """Arrival, prompt and output of each."""
    seconds, prompts, outputs = zip(*requests, strict=True)
    return Workload("by hand", np.array(seconds, float), np.array(prompts), np.array(outputs), 0)


def pages_of(tokens: int, page_tokens: int = 64) -> int:
    return -(-tokens // page_tokens)


def peaks(load: Workload) -> list[int]:
    """The last token generated is never computed."""
    return [pages_of(int(p) + int(o) - 1) for p, o in zip(load.prompt_tokens, load.output_tokens, strict=True)]


SMALL = Workload("small", *(getattr(conversation(20), c) for c in ("arrival_seconds", "prompt_tokens")),
                 np.minimum(conversation(20).output_tokens, 200), 0)  # fmt: skip
"""20 requests as in a real trace, outputs cut to 200 tokens to be quick."""

LARGEST_TWO = sorted(peaks(SMALL))[-2:]


@pytest.fixture(scope="module")
def tight():
    """So few pages that the largest request is refused, and the next largest fills the GPU nearly alone."""
    gpu, host = LARGEST_TWO[0] + 1, LARGEST_TWO[0] // 2
    return drive(SMALL, gpu_pages=gpu, host_pages=host, pages=PageManager(gpu, host, 64, device="cpu"), burst=True)


def test_every_request_finishes_or_is_refused(tight):
    counts = tight.engine.counts
    assert counts.finished + len(tight.refused) == len(SMALL)
    assert tight.engine.live == 0
    assert tight.engine.gpu_pages_used == 0


def test_only_what_can_never_fit_is_refused_with_the_reason(tight):
    gpu = tight.engine.gpu_pages
    assert tight.refused == {
        place: f"needs {peak} pages at its longest, and the GPU has {gpu}"
        for place, peak in enumerate(peaks(SMALL))
        if peak > gpu
    }
    assert len(tight.refused) == 1


def test_under_pressure_requests_are_suspended_resumed_and_recompute_paused(tight):
    counts = tight.engine.counts
    assert counts.suspends > 0
    assert counts.resumes > 0
    assert counts.recompute_pauses > 0
    assert counts.pages_offloaded > 0
    assert counts.peak_gpu_pages <= tight.engine.gpu_pages


def test_under_pressure_no_content_is_wrong_and_no_claim_is_violated(tight):
    counts = tight.engine.counts
    assert counts.content_checks > 0
    assert counts.content_errors == 0
    assert tight.engine.content_errors == []
    assert tight.engine.violations == []
    assert counts.useless_victims == 0
    assert tight.exit_code == 0


def test_tokens_generated_are_the_outputs_of_the_accepted(tight):
    accepted = [int(o) for place, o in enumerate(SMALL.output_tokens) if place not in tight.refused]
    assert tight.engine.counts.tokens == sum(accepted)


def test_the_manager_moved_as_many_pages_as_the_engine_counted(tight):
    """Two accounts of the same moves. What a recompute-pause drops from the host never comes back."""
    manager, counts = tight.engine.pages, tight.engine.counts
    assert (manager.pages_offloaded, manager.pages_onboarded) == (counts.pages_offloaded, counts.pages_onboarded)
    assert counts.pages_onboarded <= counts.pages_offloaded
    assert counts.resumes <= counts.suspends
    manager.check()
    assert manager.gpu.free == tight.engine.gpu_pages
    assert manager.host.free == tight.engine.host_pages


def test_a_request_takes_at_least_the_passes_it_needs_alone(tight):
    """A pass a chunk of its prompt, the last of which yields the first token; one for every further token."""
    assert len(tight.completion_passes) == tight.engine.counts.finished
    chunk = tight.engine.chunk_tokens
    alone = sorted(
        -(-int(p) // chunk) + int(o) - 1
        for place, (p, o) in enumerate(zip(SMALL.prompt_tokens, SMALL.output_tokens, strict=True))
        if place not in tight.refused
    )
    took = sorted(tight.completion_passes)
    assert all(passes >= least for passes, least in zip(took, alone, strict=True))
    assert took != alone
    roomy = drive(SMALL, gpu_pages=sum(peaks(SMALL)), burst=True, chunk_tokens=chunk, checks="off")
    assert sum(roomy.completion_passes) == sum(
        -(-int(p) // chunk) + int(o) - 1 for p, o in zip(SMALL.prompt_tokens, SMALL.output_tokens, strict=True)
    )


def test_tokens_are_computed_again_only_after_a_recompute_pause(tight):
    """Each pause loses at least one token, and at most the largest peak's."""
    counts = tight.engine.counts
    assert counts.recompute_pauses <= counts.recomputed_tokens
    assert counts.recomputed_tokens <= counts.recompute_pauses * tight.engine.gpu_pages * 64
    roomy = drive(SMALL, gpu_pages=sum(peaks(SMALL)), burst=True)
    assert (roomy.engine.counts.recompute_pauses, roomy.engine.counts.recomputed_tokens) == (0, 0)
    assert roomy.engine.counts.tokens == int(SMALL.output_tokens.sum())


def test_two_requests_that_collide_lose_what_the_table_says():
    """1 token a page, 4 GPU pages, no host, chunks of 2: prompts of 2, outputs of 3. Each needs 4 pages at its longest.

    Pass 1: each computes 2 tokens and generates 1. Pass 2: R0 needs a page, R1 is recompute-paused and loses
    2 tokens; R0 generates its second. Pass 3: R0 takes the fourth page, generates its third and is done; R1 now
    replays 3 tokens, and 1 page was free where its chunk needs 2. Pass 4: 2 tokens of R1. Pass 5: the last of its
    replay, which yields its second. Pass 6: its third.
    """
    result = drive(workload((0, 2, 3), (0, 2, 3)), gpu_pages=4, page_tokens=1, chunk_tokens=2)
    counts = result.engine.counts
    assert (counts.passes, counts.recompute_pauses, counts.recomputed_tokens) == (6, 1, 2)
    assert (counts.tokens, counts.finished, counts.peak_gpu_pages) == (6, 2, 4)


def test_arrivals_by_the_clock_come_later_than_a_burst():
    """Requests 100 s apart never meet; in a burst they do."""
    load = workload((0, 640, 5), (100, 640, 5), (200, 640, 5))
    apart = drive(load, gpu_pages=40)
    together = drive(load, gpu_pages=40, burst=True)
    assert apart.engine.counts.peak_gpu_pages == pages_of(644)
    assert together.engine.counts.peak_gpu_pages == 3 * pages_of(644)
    assert apart.engine.counts.passes == 3 * 5
    assert together.engine.counts.passes == 5


def test_a_pass_takes_the_time_that_it_is_said_to_take():
    """The second arrives after 1 s: within 5 passes of 0.3 s, but not of 0.1 s."""
    load = workload((0, 64, 5), (1.0, 64, 5))
    assert drive(load, gpu_pages=8, pass_seconds=0.1).engine.counts.passes == 10
    assert drive(load, gpu_pages=8, pass_seconds=0.3).engine.counts.passes == 4 + 5


def test_progress_is_told_after_every_pass_and_ends_with_everybody():
    seen = []
    result = drive(SMALL, gpu_pages=LARGEST_TWO[0], burst=True, progress=seen.append)
    assert [at.passes for at in seen] == list(range(1, result.engine.counts.passes + 1))
    last = seen[-1]
    assert (last.finished + last.refused, last.requests, last.live, last.gpu_used) == (20, 20, 0, 0)
    assert all(at.gpu_used <= LARGEST_TWO[0] for at in seen)


def test_a_pool_in_which_nobody_fits_is_refused_before_the_first_pass():
    load = workload((0, 640, 1), (0, 1280, 1))
    with pytest.raises(PoolTooSmall) as refused:
        drive(load, gpu_pages=9, progress=pytest.fail)
    assert str(refused.value) == (
        "--gpu-pages: no request of 'by hand' can ever fit 9 GPU pages of 64 tokens: the smallest needs 10, "
        "the largest 20. Give at least 20 pages to accept every request."
    )
    assert refused.value.exit_code == 2
    assert len(drive(load, gpu_pages=10).refused) == 1


def test_sizes_without_sense_are_refused():
    for wrong in ({"gpu_pages": 0}, {"gpu_pages": 10**30}, {"gpu_pages": 9, "host_pages": -1}):
        with pytest.raises(UsageError, match=r"^--(gpu|host)-pages: "):
            drive(SMALL, **wrong)


def test_peak_demand_of_a_burst_that_grows_together():
    """Both arrive at once with one chunk of prompt and equal outputs, so both peak in the last pass."""
    load = workload((0, 100, 30), (0, 200, 30))
    assert peak_demand(load, burst=True, pass_seconds=0.03, **SIZES) == pages_of(129) + pages_of(229)


def test_default_pools_are_half_of_the_demand_but_fit_the_largest():
    many = workload(*[(0, 100, 30)] * 9)
    assert default_pools(many, burst=True, pass_seconds=0.03, **SIZES) == (14, 7)  # 9 x 3 pages, half rounded up
    one = workload((0, 6400, 1))
    assert default_pools(one, **PACE, **SIZES) == (100, 50)


@pytest.mark.parametrize("policy", ["resident-first", "helix-published"])
def test_default_pools_hurt(policy):
    gpu, host = default_pools(SMALL, burst=True, pass_seconds=0.03, **SIZES)
    assert gpu >= largest_peak(SMALL, 64) == max(peaks(SMALL))
    try:
        counts = drive(SMALL, policy=policy, gpu_pages=gpu, host_pages=host, burst=True).engine.counts
    except Stall:
        assert policy == "helix-published"  # claims no more than our reading of it
        return
    assert counts.finished == len(SMALL)
    assert counts.suspends + counts.recompute_pauses > 0


@pytest.mark.parametrize("checks", ["off", "sample", "full", *Checks])
def test_what_is_checked_changes_nothing_that_happens(checks):
    gpu, host = LARGEST_TWO[0], 20
    first = drive(SMALL, gpu_pages=gpu, host_pages=host, burst=True, checks=checks)
    full = drive(SMALL, gpu_pages=gpu, host_pages=host, burst=True)
    ignored = ("useless_victims", "content_checks")
    there, here = (
        {k: v for k, v in vars(result.engine.counts).items() if k not in ignored} for result in (first, full)
    )
    assert there == here


def test_the_json_has_at_least_the_fields_that_were_promised(tight):
    value = tight.as_json()
    assert set(value) >= {
        "requests", "finished", "tokens", "passes", "suspends", "resumes", "recompute_pauses", "useless_victims",
        "recomputed_tokens", "pages_offloaded", "pages_onboarded", "content_checks", "content_errors", "violations",
        "seconds",
    }  # fmt: skip
    assert json.loads(json.dumps(value)) == value
    assert (value["requests"], value["refused"], value["violations"]) == (20, 1, 0)
    assert list(value["refusals"]) == [str(place) for place in tight.refused]


def test_what_was_not_checked_is_null():
    value = drive(workload((0, 5, 5)), gpu_pages=4, checks="off").as_json()
    for name in ("useless_victims", "violations", "violated", "content_checks", "content_errors"):
        assert value[name] is None, name
