"""What ``check`` says, against hand-made arguments and plain Python searches over the same transition system."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stallproof.bounds import Bounds
from stallproof.checking import check
from stallproof.claims import Kind, Verdict
from stallproof.errors import UnknownPolicy, UsageError
from stallproof.model import Kind as MoveKind
from stallproof.model import LifecycleModel, Move, pack, unpack
from stallproof.policies import POLICIES, policy_named
from stallproof.properties import PROPERTIES
from stallproof.traces import trace_of

DEAD_END = Bounds(gpu_pages=4, host_pages=0)
LIVELOCK = Bounds(gpu_pages=6, host_pages=1, max_output=4)
USELESS = Bounds(live=3, gpu_pages=3, host_pages=1, chunk_tokens=1, max_prompt=1, max_output=2)
STARVATION = Bounds(live=3, gpu_pages=3, host_pages=0, chunk_tokens=2, max_prompt=1, max_output=2)

PASS = Move(MoveKind.PASS)
BIT = {claim.name: 1 << bit for bit, claim in enumerate(PROPERTIES)}


def checked(policy, bounds, **options):
    result = check(policy, bounds, threads=1, **options)
    return result, {p.name: p for p in result.properties}


class Plain:
    """The transition system as dictionaries: breadth first, one call of the model a state, no explorer."""

    def __init__(self, policy: str, bounds: Bounds) -> None:
        self.model = LifecycleModel(policy_named(policy), bounds)
        start = self.model.initial_rows()[0]
        self.depth = {start.tobytes(): 0}
        self.transitions = 0
        frontier = [start]
        while frontier:
            following = []
            for row in frontier:
                found = self.model.successors(row[None, :]).row
                self.transitions += len(found)
                for target in found:
                    if target.tobytes() not in self.depth:
                        self.depth[target.tobytes()] = self.depth[row.tobytes()] + 1
                        following.append(target.copy())
            frontier = following
        self.after_pass = {state: self.one_pass(state) for state in self.depth}

    def one_pass(self, state: bytes) -> tuple[bytes, int]:
        """The state a pass leads to, and its facts."""
        step = self.model.new_step()
        unpack(np.frombuffer(state, np.uint64), step.before, step.tiers_before)
        facts = self.model.run(step, PASS)
        row = np.zeros(self.model.words, np.uint64)
        pack(step.after, step.tiers, row)
        return row.tobytes(), facts

    def shortest_loop_of_passes(self, name: str) -> int | None:
        """Steps of the shortest run into a circle of passes that all leave ``name`` unfulfilled, once round it."""
        shortest = None
        for state, depth in self.depth.items():
            at, length = state, 0
            while length <= len(self.depth):
                at, facts = self.after_pass[at]
                length += 1
                if not facts & BIT[name]:
                    break
                if at == state:
                    shortest = min(depth + length, shortest or depth + length)
                    break
        return shortest

    def passes_until_nobody(self) -> int | None:
        """From each state pass after pass until nobody is left: the most passes; None if one never gets there."""
        nobody = bytes(8 * self.model.words)
        most = 0
        for state in self.depth:
            at, passes, seen = state, 0, set()
            while at != nobody:
                if at in seen:
                    return None
                seen.add(at)
                at, passes = self.after_pass[at][0], passes + 1
            most = max(most, passes)
        return most


# ---- The verdicts the project is about -------------------------------------------------------------


def test_resident_first_holds_at_the_default_bounds_and_that_is_exit_code_0():
    result = check(threads=1)
    assert (result.policy.name, result.bounds) == ("resident-first", Bounds())
    assert result.verdict is Verdict.HOLDS
    assert result.exit_code == 0
    assert {p.verdict for p in result.properties} == {Verdict.HOLDS, Verdict.NOT_APPLICABLE}
    assert result.failures == ()


def test_helix_published_has_a_dead_end_of_4_steps_without_a_host_tier():
    """Finding 3: 4 GPU pages, 2 requests. Shorter is impossible.

    The last step is a pass that decides nothing over live requests, so at least one request waits for a page
    that another one holds (alone it fits, or it was refused). So two have arrived (2 steps), and a request
    holds pages only after a pass that gave them (1 step). With the dead pass: 4.
    """
    result, found = checked("helix-published", DEAD_END)
    assert result.verdict is Verdict.VIOLATED
    assert result.exit_code == 1
    assert found["no-dead-end"].trace_length == 4
    kinds = [move.kind for move in found["no-dead-end"].trace.moves]
    assert kinds == [MoveKind.ARRIVE, MoveKind.ARRIVE, MoveKind.PASS, MoveKind.PASS]
    assert found["no-dead-end"].trace.loop_start == 3


def test_helix_published_goes_round_in_a_circle_with_one_host_page():
    """Finding 2: 6 GPU pages, 1 host page; the circle is one pass that suspends and computes nothing."""
    result, found = checked("helix-published", LIVELOCK)
    assert result.exit_code == 1
    livelock = found["no-livelock"]
    assert livelock.failed
    loop = livelock.trace.moments[livelock.trace.loop_start :]
    assert [moment.move for moment in loop] == [PASS]
    assert [(o.event.label, o.request) for o in loop[0].operations] == [("resume", 3), ("suspend", 3)]
    older, newer = loop[0].requests
    assert not older.decoding
    assert newer.decoding


@pytest.mark.parametrize(
    ("name", "bounds"), [("no-dead-end", DEAD_END), ("no-livelock", LIVELOCK)], ids=["dead end", "livelock"]
)
def test_a_stall_is_as_short_as_a_plain_search_finds_it(name, bounds):
    """No move of the environment belongs to either circle, so following the one pass of each state finds them all."""
    _, found = checked("helix-published", bounds)
    assert found[name].trace_length == Plain("helix-published", bounds).shortest_loop_of_passes(name)


def test_helix_published_takes_a_useless_victim_and_does_not_claim_otherwise():
    """Finding 1: 3 GPU pages, 1 host page, 3 requests of one page each.

    3 arrivals and a pass that gives each its page are needed, since somebody must be suspended for the first
    request before a second can ask for a page that the loss of a third does not bring: 5 steps, the least.
    """
    _, found = checked("helix-published", USELESS)
    assert found["victim-makes-room"].failed
    assert not found["victim-makes-room"].claimed
    assert found["victim-makes-room"].trace_length == 5
    last = found["victim-makes-room"].trace.moments[-1]
    assert ("recompute-pause", 3, 2) in [(o.event.label, o.request, o.requester) for o in last.operations]


def test_helix_published_starves_the_oldest_where_nothing_else_is_wrong():
    """Finding 4: newer requests step over a blocked replay for ever; every pass is busy and computes tokens."""
    _, found = checked("helix-published", STARVATION)
    assert [found[name].failed for name in ("no-dead-end", "no-livelock", "oldest-finishes")] == [False, False, True]
    trace = found["oldest-finishes"].trace
    loop = trace.moments[trace.loop_start :]
    assert {moment.requests[0].number for moment in loop} == {3}
    assert any(moment.move.kind is MoveKind.ARRIVE for moment in loop)


@pytest.mark.parametrize("bounds", [DEAD_END, LIVELOCK, USELESS, STARVATION], ids=str)
def test_resident_first_breaks_no_promise_where_helix_published_does(bounds):
    result, _ = checked("resident-first", bounds)
    assert [p.name for p in result.properties if p.failed and p.kind is not Kind.SOMETIMES] == []


# ---- What a verdict depends on ---------------------------------------------------------------------


def test_a_failing_property_that_is_not_claimed_leaves_the_verdict_alone():
    policy = policy_named("helix-published")
    _, found = checked(policy, USELESS)
    failing = frozenset(name for name, p in found.items() if p.failed)
    assert failing
    lenient, found = checked(replace(policy, unclaimed=failing), USELESS)
    assert lenient.verdict is Verdict.HOLDS
    assert lenient.exit_code == 0
    assert {p.name for p in lenient.failures} == failing
    for name in failing:
        result, _ = checked(replace(policy, unclaimed=failing - {name}), USELESS)
        assert result.verdict is Verdict.VIOLATED


def test_a_sometimes_claim_that_never_happens_is_violated_until_it_is_not_claimed():
    """One GPU page of two tokens, prompt 1 and output 2: who is admitted is served to the end, nobody is given up.

    Two such requests want more pages than there are, so claims about pressure are judged.
    """
    bounds = Bounds(live=2, gpu_pages=1, host_pages=1, page_tokens=2, chunk_tokens=1, max_prompt=1, max_output=2)
    result, _ = checked("resident-first", bounds)
    assert {p.kind for p in result.failures} == {Kind.SOMETIMES}
    assert {"sometimes-suspends", "sometimes-recompute-pauses-active"} <= {p.name for p in result.failures}
    assert all(p.trace is None and p.trace_length is None for p in result.failures)
    assert result.verdict is Verdict.VIOLATED
    assert result.exit_code == 1
    never = frozenset(p.name for p in result.failures)
    result, _ = checked(replace(policy_named("resident-first"), unclaimed=never), bounds)
    assert result.verdict is Verdict.HOLDS
    assert result.exit_code == 0


@pytest.mark.parametrize("most", [1, 2, 10, 300, 988])
def test_a_search_that_was_cut_off_never_holds(most):
    """The default bounds have more states than that (988 is one too few, see the test of the state count)."""
    result, _ = checked("resident-first", Bounds(), max_states=most)
    assert result.states <= most
    assert result.verdict is Verdict.BOUND_REACHED
    assert result.exit_code == 3
    assert Verdict.HOLDS not in {p.verdict for p in result.properties if p.kind is not Kind.SOMETIMES}
    assert Verdict.VIOLATED not in {p.verdict for p in result.properties}
    assert result.worst_case == {"passes_to_drain": None, "passes_until_oldest_finishes": None}
    assert result.unbounded == []


def test_a_bound_of_exactly_all_states_is_no_cut():
    states = len(Plain("resident-first", Bounds()).depth)
    assert states == 989
    result, _ = checked("resident-first", Bounds(), max_states=states)
    assert result.verdict is Verdict.HOLDS


def test_what_a_cut_off_search_saw_broken_is_violated():
    result, found = checked("helix-published", USELESS, max_states=60)
    assert result.exit_code in (1, 3)
    assert found["victim-makes-room"].verdict is Verdict.VIOLATED


def test_unknown_policies_and_bounds_without_sense_are_refused():
    with pytest.raises(
        UnknownPolicy, match=r"there is no policy 'nope'\. Choose one of: helix-disaggregated, helix-published, "
    ):
        check("nope")
    with pytest.raises(UsageError, match=r"^--live: 17 is out of range\. Give a number from 1 to 16\.$"):
        check(bounds=Bounds(live=17))


# ---- The numbers beside it -------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("bounds", [Bounds(), DEAD_END, USELESS, Bounds(page_tokens=2)], ids=str)
def test_states_transitions_and_depth_are_those_of_a_plain_search(policy, bounds):
    plain = Plain(policy, bounds)
    result, _ = checked(policy, bounds)
    assert result.states == len(plain.depth)
    assert result.transitions == plain.transitions
    assert result.depth == max(plain.depth.values())


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(),
        Bounds(live=1),
        Bounds(cancel=False, early_stop=False),
        Bounds(page_tokens=2, gpu_pages=3),
        DEAD_END,
        STARVATION,
        USELESS,
    ],
    ids=str,
)
def test_passes_to_drain_is_the_most_passes_that_any_state_needs(policy, bounds):
    expected = Plain(policy, bounds).passes_until_nobody()
    assert check(policy, bounds, threads=1).worst_case["passes_to_drain"] == expected


def test_one_request_alone_drains_in_its_chunks_and_its_decodes():
    """Prompt 3 in chunks of 2: 2 passes, the second yields the first of 3 tokens; 2 more passes for the rest."""
    assert check(bounds=Bounds(live=1), threads=1).worst_case["passes_to_drain"] == 4


def test_a_stall_has_no_worst_case_and_that_is_said():
    result = check("helix-published", DEAD_END, threads=1)
    assert result.worst_case == {"passes_to_drain": None, "passes_until_oldest_finishes": None}
    assert result.unbounded == ["passes_to_drain", "passes_until_oldest_finishes"]
    assert result.as_json()["unbounded"] == result.unbounded


def test_rule_coverage_counts_the_rules_that_fired():
    """Without a host tier nobody is suspended, so the rules about suspending never fire."""
    result, _ = checked("resident-first", DEAD_END)
    without_tier = ("H2 suspend newest active", "H3 pause suspended", "H3 promote", "H4 suspend itself", "K4 promote")
    assert {result.coverage[rule] for rule in without_tier} == {0}
    assert result.coverage["H1 decode fits"] > 0
    assert result.coverage["chunk fits"] > 0


def test_the_json_has_at_least_the_fields_that_were_promised():
    value = checked("helix-published", DEAD_END)[0].as_json()
    assert set(value) >= {
        "verdict", "policy", "bounds", "states", "transitions", "depth", "seconds",
        "states_per_second", "properties", "coverage", "worst_case",
    }  # fmt: skip
    assert value["verdict"] == "violated"
    assert value["bounds"]["gpu_pages"] == 4
    assert len(value["properties"]) == len(PROPERTIES)
    for p in value["properties"]:
        assert set(p) >= {"name", "kind", "verdict", "states_checked", "trace_length"}
    assert {p["trace_length"] for p in value["properties"] if p["name"] == "no-dead-end"} == {4}


@pytest.mark.parametrize("bounds", [DEAD_END, LIVELOCK, USELESS, STARVATION], ids=str)
def test_every_counterexample_replays_and_ends_where_its_property_breaks(bounds):
    """``trace_of`` replays or raises; here each trace is replayed once more, and must give the same moments."""
    result, _ = checked("helix-published", bounds)
    failed = [p for p in result.failures if p.kind is not Kind.SOMETIMES]
    assert failed
    for p in failed:
        again = trace_of(LifecycleModel(result.policy, bounds), p.trace.claim, p.trace.moves, p.trace.loop_start)
        assert [m.row.tolist() for m in again.moments] == [m.row.tolist() for m in p.trace.moments]
        assert len(p.trace.moments) == p.trace_length
