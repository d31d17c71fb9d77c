"""Each policy that models an engine does what its engine's rules say, and fails what we say it fails.

A scenario in ``scenarios/zoo`` is a run written by hand from the engine's rules: what happens in each step, and who
has which pages afterwards. The comment at its head says why. The length of a failure's trace is that of one which
the certifier has replayed; the words beside it say why none is shorter.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from stallproof import model
from stallproof.bounds import Bounds
from stallproof.certifier import certify_all
from stallproof.checking import check
from stallproof.claims import Verdict
from stallproof.compiled import INTERPRETED
from stallproof.engine import Engine
from stallproof.model import Kind as MoveKind
from stallproof.model import LifecycleModel, Move
from stallproof.outcomes import AllocationFailure, Stall
from stallproof.policies import POLICIES
from stallproof.report.timeline import describe, pages_bar
from stallproof.traces import as_json, walk

SCENARIOS = sorted((Path(__file__).parent / "scenarios" / "zoo").glob("*.txt"))
LADDERS = ("resident-first", "helix-published")
ZOO = [name for name in POLICIES if name not in LADDERS]
GPU_ONLY = Bounds(gpu_pages=4, host_pages=0)
REFERENCE = {"default": Bounds(), "GPU only": GPU_ONLY, "host 1": Bounds(host_pages=1), "live 4": Bounds(live=4)}

ARRIVAL = re.compile(r"R\d+ arrives: prompt (\d+), output up to (\d+)(?:, priority (\d+))?")


class Scenario(NamedTuple):
    """What a file says: the policy, the bounds, and each step's text with its bars of pages."""

    policy: str
    bounds: Bounds
    steps: list[tuple[str, ...]]


def scenario(path: Path) -> Scenario:
    head, *steps = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    fields = dict(field.split() for field in head.split(", "))
    policy = fields.pop("policy")
    sizes = {name: int(size) for name, size in fields.items()}
    return Scenario(policy, Bounds(**sizes), [tuple(part.strip() for part in step.split("|")) for step in steps])


def moves(steps: list[tuple[str, ...]]) -> list[Move]:
    """The moves that the texts name. Whoever stops is the request in that row: scenarios have no priorities then."""
    found, live = [], []
    for text, *_ in steps:
        if arrival := ARRIVAL.fullmatch(text):
            prompt, output, priority = (int(number or 0) for number in arrival.groups())
            found.append(Move(MoveKind.ARRIVE, prompt=prompt, output=output, priority=priority))
            live.append(text.split()[0])
        elif text.endswith(" stops early and finishes"):
            found.append(Move(MoveKind.STOP, request=live.index(text.split()[0])))
            live.remove(text.split()[0])
        else:
            assert text.startswith("pass: ")
            found.append(Move(MoveKind.PASS))
            live = [who for who in live if f"{who} finishes" not in text]
    return found


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_policy_does_what_was_worked_out_by_hand(path):
    policy, bounds, steps = scenario(path)
    lifecycle = LifecycleModel(POLICIES[policy], bounds)
    happened = []
    for moment in walk(lifecycle, moves(steps)):
        bars = [pages_bar(moment.requests, "gpu_pages", bounds.gpu_pages)]
        if bounds.host_pages:
            bars.append(pages_bar(moment.requests, "host_pages", bounds.host_pages))
        happened.append((describe(moment), *bars))
    assert happened == steps


def test_every_policy_of_the_zoo_has_a_scenario_and_says_where_it_comes_from():
    assert {scenario(path).policy for path in SCENARIOS} == set(ZOO)
    for policy in ZOO:
        text = __import__(f"stallproof.policies.{policy.replace('-', '_')}", fromlist=["x"]).__doc__
        assert "ur reading" in text
        assert "Not claimed" in text
        for name in POLICIES[policy].unclaimed:
            assert name.startswith("sometimes-") or f"``{name}``" in text or policy == "vllm-priority", (policy, name)


# ---- verdicts --------------------------------------------------------------------------------------


class Failure(NamedTuple):
    """A property that fails, its shortest trace's steps, and why none is shorter."""

    policy: str
    bounds: Bounds
    property: str
    steps: int
    because: str


TWO_AND_A_PASS = "two must have arrived and hold pages, which takes a pass, before one can be in the other's way"
FAILURES = [
    Failure("helix-disaggregated", Bounds(), "no-dead-end", 4, TWO_AND_A_PASS),
    Failure("helix-disaggregated", Bounds(), "oldest-finishes", 4, TWO_AND_A_PASS),
    Failure("trtllm-v2", GPU_ONLY, "no-suspension-without-lower-tier", 4, TWO_AND_A_PASS),
    Failure("trtllm-v2", GPU_ONLY, "legal-transition", 4, TWO_AND_A_PASS),
    Failure("trtllm-v2", GPU_ONLY, "no-livelock", 5, "as above, and only a suspended request can resume for ever"),
    Failure("trtllm-v2", GPU_ONLY, "victim-behind-requester", 5, "as above, and a third must pass the older one"),
    Failure("trtllm-v2", Bounds(), "victim-makes-room", 5, "a suspended victim: three arrive, a pass, a pass"),
    Failure("trtllm-v2", Bounds(), "only-when-needed", 5, "a suspended victim: three arrive, a pass, a pass"),
    Failure("trtllm-max-utilization", Bounds(), "only-when-needed", 4, TWO_AND_A_PASS),
    Failure("vllm-fcfs", Bounds(max_prompt=4), "only-when-needed", 5, "three arrive: in vain for a second; two passes"),
    Failure("vllm-priority", Bounds(priorities=2), "no-priority-inversion", 4, "one runs, another comes, and waits"),
    Failure("sglang-retract", Bounds(), "oldest-finishes", 4, "the oldest decodes after a pass; one comes and goes"),
    Failure("sglang-retract", Bounds(), "victim-behind-requester", 5, "two arrive, prefill and decode are passes"),
    Failure("lightllm-pause", Bounds(), "only-when-needed", 4, TWO_AND_A_PASS),
    Failure("swap-first", Bounds(), "no-dead-end", 4, TWO_AND_A_PASS),
    Failure("swap-first", Bounds(), "oldest-finishes", 5, "the oldest decodes after a pass; one comes, runs and stops"),
    Failure("swap-first", Bounds(), "host-full-has-a-way-out", 6, "three arrive, a pass, a pass that swaps, a raise"),
]


@pytest.fixture(scope="module")
def results():
    return {(f.policy, f.bounds): check(f.policy, f.bounds, threads=1) for f in FAILURES}


@pytest.mark.parametrize("failure", FAILURES, ids=lambda f: f"{f.policy} {f.property}")
def test_the_shortest_trace_has_the_length_we_say(failure, results):
    result = next(p for p in results[failure.policy, failure.bounds].properties if p.name == failure.property)
    assert result.verdict is Verdict.VIOLATED
    assert result.trace_length == failure.steps, failure.because


def test_every_counterexample_is_certified_by_the_second_checker(results):
    traces = [as_json(p.trace) for result in results.values() for p in result.failures if p.trace is not None]
    assert len(certify_all(traces)) == len(traces) > 20


VERDICTS = {
    "helix-disaggregated": Verdict.HOLDS,  # what it fails, it does not claim
    "trtllm-v2": Verdict.VIOLATED,
    "trtllm-max-utilization": Verdict.HOLDS,
    "trtllm-no-evict": Verdict.HOLDS,
    "vllm-fcfs": Verdict.HOLDS,
    "vllm-priority": Verdict.HOLDS,
    "sglang-retract": Verdict.VIOLATED,
    "lightllm-pause": Verdict.HOLDS,
    "swap-first": Verdict.HOLDS,  # what it fails, it does not claim
}


@pytest.mark.parametrize("name", REFERENCE)
def test_the_verdict_at_each_of_the_bounds(name):
    assert {policy: check(policy, REFERENCE[name]).verdict for policy in ZOO} == VERDICTS


@pytest.mark.parametrize("name", REFERENCE)
def test_whoever_claims_that_the_oldest_finishes_and_does_not_stalls_only_where_we_say(name):
    stalls = {"no-dead-end", "no-livelock", "oldest-finishes", "host-full-has-a-way-out"}
    for policy in ZOO:
        failed = {p.name for p in check(policy, REFERENCE[name]).failures if p.claimed}
        assert failed <= stalls
        assert bool(failed) is (policy in ("trtllm-v2", "sglang-retract"))


@pytest.mark.parametrize("policy", ZOO)
def test_no_policy_loses_a_page_or_a_token_or_gives_up_whom_it_serves(policy):
    """What an engine's policy may get wrong is progress, thrift and order; the counts are the lifecycle's."""
    kept = {
        "page-conservation", "phase-residency", "lists-disjoint", "victim-once-per-pass", "tokens-preserved",
        "replay-from-zero", "scheduled-has-pages", "infeasible-refused", "terminal-releases-once",
        "decode-not-suspended-for-context", "active-victim-first",
    }  # fmt: skip
    for bounds in (
        Bounds(page_tokens=2, gpu_pages=3, max_output=4),
        Bounds(lookahead=1, max_prompt=2, gpu_pages=5),
        Bounds(pass_tokens=3, pass_requests=2),
        Bounds(priorities=2, max_prompt=2),
        Bounds(copies=True, live=2, gpu_pages=4, max_output=2),
    ):
        assert kept & {p.name for p in check(policy, bounds).failures} == set(), bounds


def test_no_evict_gives_nobody_up_and_nobody_waits_for_ever_whatever_the_outputs():
    result = check("trtllm-no-evict", Bounds(gpu_pages=6, max_output=4))
    assert result.bounds.every_output
    assert result.findings == ()
    assert next(p for p in result.properties if p.name == "sometimes-recompute-pauses-active").failed


# ---- one compilation for all; the engine ------------------------------------------------------------


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_another_policy_does_not_compile_the_explorer_again():
    check("resident-first", Bounds(live=2))
    before = len(model.expand.signatures)
    for policy in ZOO:
        check(policy, Bounds(live=2))
    assert len(model.expand.signatures) == before


def test_a_server_that_raises_names_the_knobs_and_who_lacks_what_and_nothing_has_happened():
    engine = Engine(policy="helix-disaggregated", gpu_pages=4, host_pages=8, page_tokens=1, chunk_tokens=8)
    first, second = engine.submit(1, 4), engine.submit(3, 2)
    engine.run_pass()
    tokens = engine.counts.tokens
    with pytest.raises(AllocationFailure) as failure:
        engine.run_pass()
    text = str(failure.value)
    assert text.startswith("an allocation failed at pass 2, and helix-disaggregated raises: the server stops.")
    assert f"request {first} (active) waits for 1 GPU pages" in text
    assert "free: 0 GPU pages, 8 host pages" in text
    for knob in (
        "max_gpu_total_bytes (bytes of this rank)",
        "max_tokens (tokens of all ranks together)",
        "fewer requests",
    ):
        assert knob in text
    assert isinstance(failure.value, Stall)
    assert (engine.counts.tokens, engine.live, engine.gpu_pages_used) == (tokens, 2, 4)
    engine.cancel(second)
    while engine.live:
        engine.run_pass()
    assert engine.counts.finished == 1


@pytest.mark.parametrize("policy", [name for name in ZOO if not POLICIES[name].raises and name != "trtllm-v2"])
def test_an_engine_under_pressure_finishes_everybody(policy):
    """Nothing arrives any more, so even a policy that an endless stream starves gets to the end."""
    engine = Engine(policy=policy, gpu_pages=8, host_pages=4, page_tokens=4, chunk_tokens=8)
    for prompt, output in ((10, 20), (3, 29), (20, 5), (1, 30), (16, 16), (8, 8)):
        assert isinstance(engine.submit(prompt, output), int)
    while engine.live:
        engine.run_pass()
    assert engine.counts.finished == 6
    assert not engine.violations
