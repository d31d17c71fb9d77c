"""The vLLM watcher: against what real vLLM 0.32 schedulers did (recorded), and around a stand-in of their names."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

from stallproof.claims import Checks
from stallproof.integrations.vllm import register, settings_of_the_environment, watched
from stallproof.integrations.vllm_watching import Settings
from stallproof.monitor import ClaimViolated
from stallproof.recording import read_recording
from stallproof.replaying import replay

RECORDINGS = Path(__file__).parent / "recordings"


@pytest.mark.parametrize("name", ["scheduler-under-pressure", "async-scheduler-under-pressure"])
def test_vllm_under_pressure_keeps_every_claim_that_can_be_checked(name):
    """Four requests of 20 + 40 tokens over 8 blocks of 16: 67 passes, two preemptions, everything comes back."""
    recording = read_recording(RECORDINGS / f"{name}.jsonl")
    events = [seen.event.label for seen in recording.observations if hasattr(seen, "event")]
    found = replay(recording)
    assert (found.monitor.passes, found.monitor.live) == (67, 0)
    assert (events.count("recompute-pause"), events.count("finish")) == (2, 4)
    assert (found.monitor.counts, found.monitor.faults) == ({}, 0)


def test_a_stale_running_list_planted_in_vllm_is_found_in_its_pass():
    """The recording ends with the pass in which r3 and r2 were preempted, and the old list was put back."""
    recording = read_recording(RECORDINGS / "stale-running-list.jsonl")
    found = replay(recording)
    last = recording.observations[-1].number
    violations = [(v.property, v.pass_number, v.requests) for v in found.monitor.violations]
    assert sorted(violations) == [("lists-disjoint", last, ("r2",)), ("lists-disjoint", last, ("r3",))]


# -- a stand-in ------------------------------------------------------------------------------------------


class Status:
    def __init__(self, name):
        self.name = name


class Request:
    def __init__(self, name, tokens=4, output=4):
        self.request_id, self.num_tokens, self.max_tokens = name, tokens, output
        self.num_computed_tokens, self.status = 0, Status("WAITING")


class FullAttentionSpec:
    block_size = 4


class Scheduler:
    """The names that a vLLM scheduler has, and the least of its behaviour: all that fits runs, none is preempted."""

    def __init__(self, blocks=8, caching=False):
        self.requests, self.running, self.waiting, self.skipped_waiting = {}, [], [], []
        self.blocks, self.size = {}, blocks
        pool = SimpleNamespace(
            num_gpu_blocks=blocks + 1, get_num_free_blocks=lambda: self.size - sum(map(len, self.blocks.values()))
        )
        managers = (SimpleNamespace(req_to_blocks=self.blocks),)
        self.kv_cache_manager = SimpleNamespace(
            coordinator=SimpleNamespace(single_type_managers=managers), block_pool=pool, enable_caching=caching
        )
        self.kv_cache_config = SimpleNamespace(kv_cache_groups=[SimpleNamespace(kv_cache_spec=FullAttentionSpec())])

    def add_request(self, request):
        self.requests[request.request_id] = request
        self.waiting.append(request)

    def schedule(self):
        new = list(self.waiting)
        self.waiting.clear()
        for request in new:
            request.status = Status("RUNNING")
            self.blocks[request.request_id] = [1, 2]
        self.running += new
        scheduled = {r.request_id: r.num_tokens - r.num_computed_tokens for r in self.running}
        for request in self.running:
            request.num_computed_tokens = request.num_tokens
        cached = SimpleNamespace(req_ids=[], new_block_ids=[], resumed_req_ids=set())
        return SimpleNamespace(num_scheduled_tokens=scheduled, scheduled_new_reqs=new, scheduled_cached_reqs=cached)

    def update_from_output(self, *_):
        for request in list(self.running):
            request.num_tokens += 1
            if request.num_tokens == 8:
                request.status = Status("FINISHED_STOPPED")
                self.running.remove(request)
                self._free_request(request)
        return {}

    def _preempt_request(self, request):
        request.status, request.num_computed_tokens = Status("PREEMPTED"), 0
        self.blocks.pop(request.request_id)
        self.waiting.insert(0, request)

    def _free_request(self, request):
        self.blocks.pop(request.request_id, None)
        del self.requests[request.request_id]

    def shutdown(self):
        pass


def run(cls, passes=6, names="ab", **options):
    scheduler = cls(**options)
    for name in names:
        scheduler.add_request(Request(name))
    for _ in range(passes):
        scheduler.update_from_output(scheduler.schedule(), None)
    return scheduler


FULL = Settings(Checks.FULL, "raise")


@pytest.mark.parametrize("checks", [Checks.FULL, Checks.SAMPLE])
def test_a_scheduler_that_keeps_the_claims_is_left_alone(checks):
    """Two requests of 4 tokens finish when they have 8: four passes, then two with nobody."""
    scheduler = run(watched(Scheduler, Settings(checks, "raise")))
    watcher = scheduler._stallproof
    assert (watcher.broken, watcher.monitor.faults, watcher.monitor.counts) == ("", 0, {})
    assert (watcher.monitor.passes, watcher.monitor.live, scheduler.requests) == (6, 0, {})


def test_a_name_may_be_used_again_once_its_request_has_finished():
    scheduler = run(watched(Scheduler, FULL))
    scheduler.add_request(Request("a"))
    scheduler.schedule()
    assert scheduler._stallproof.monitor.active == {"a"}


class Leaks(Scheduler):
    def _free_request(self, request):
        del self.requests[request.request_id]


class Doubles(Scheduler):
    def schedule(self):
        output = super().schedule()
        self.running.append(self.running[0])
        return output


class RunsThePreempted(Scheduler):
    def schedule(self):
        output = super().schedule()
        if self.running[0].num_tokens > 4:  # the second pass
            self._preempt_request(self.running[0])
        return output


class DecidesNothing(Scheduler):
    def schedule(self):
        cached = SimpleNamespace(req_ids=[], new_block_ids=[], resumed_req_ids=set())
        return SimpleNamespace(num_scheduled_tokens={}, scheduled_new_reqs=[], scheduled_cached_reqs=cached)


@pytest.mark.parametrize(
    ("cls", "claim"),
    [
        (Leaks, "terminal-releases-once"),
        (Doubles, "lists-disjoint"),
        (RunsThePreempted, "lists-disjoint"),
        (DecidesNothing, "no-dead-end"),
    ],
)
def test_a_planted_fault_is_raised_once_the_pass_is_over(cls, claim):
    with pytest.raises(ClaimViolated) as error:
        run(watched(cls, FULL))
    assert error.value.violation.property == claim


def test_a_violation_is_logged_and_the_engine_goes_on(caplog):
    with caplog.at_level(logging.ERROR, "vllm.stallproof"):
        scheduler = run(watched(Leaks, Settings(Checks.FULL)))
    assert scheduler.requests == {}
    assert "terminal-releases-once is violated by request a" in caplog.text


def test_a_fault_of_the_watcher_is_logged_once_and_the_engine_goes_on(caplog):
    class Odd(Scheduler):
        def schedule(self):
            output = super().schedule()
            del output.scheduled_cached_reqs
            return output

    scheduler = run(watched(Odd, FULL))
    assert scheduler._stallproof.broken.startswith("AttributeError")
    assert scheduler.requests == {}
    assert caplog.text.count("the engine goes on unwatched") == 1


def test_a_scheduler_without_the_names_is_not_watched_and_runs(caplog):
    class Bare:
        def schedule(self):
            return 7

        def update_from_output(self):
            return {}

    bare = watched(Bare, FULL)()
    assert (bare.schedule(), bare._stallproof) == (7, None)
    assert "Bare is not watched: AttributeError" in caplog.text


def test_an_object_made_without_its_constructor_runs_unwatched():
    cls = watched(Scheduler, FULL)
    scheduler = cls.__new__(cls)
    Scheduler.__init__(scheduler)
    scheduler.add_request(Request("a"))
    assert scheduler.schedule().num_scheduled_tokens == {"a": 4}


def test_shared_blocks_are_not_counted_and_that_is_told():
    monitor = run(watched(Scheduler, FULL), caching=True)._stallproof.monitor
    assert monitor.unchecked["page-conservation"]
    assert monitor.counts == {}


def test_a_class_is_wrapped_once():
    cls = watched(Scheduler, FULL)
    assert watched(cls) is cls
    assert issubclass(cls, Scheduler)


@pytest.mark.parametrize(
    ("says", "checks"), [(None, Checks.OFF), ("full", Checks.FULL), ("sample", Checks.SAMPLE), ("loud", Checks.OFF)]
)
def test_the_environment_switches_it_on_and_a_wrong_word_leaves_it_off(monkeypatch, caplog, says, checks):
    monkeypatch.delenv("STALLPROOF", raising=False)
    if says is not None:
        monkeypatch.setenv("STALLPROOF", says)
    assert settings_of_the_environment().checks is checks
    assert bool(caplog.text) == (says == "loud")


def test_the_plug_in_without_vllm_says_so_and_breaks_nothing(monkeypatch, caplog):
    monkeypatch.setenv("STALLPROOF", "full")
    monkeypatch.setitem(__import__("sys").modules, "vllm.config", None)
    register()
    assert "Nothing is watched" in caplog.text


def test_a_recording_of_a_watched_scheduler_replays(tmp_path):
    scheduler = run(watched(Scheduler, Settings(Checks.FULL, record=str(tmp_path))))
    scheduler.shutdown()
    (path,) = tmp_path.iterdir()
    found = replay(read_recording(path))
    assert (found.monitor.passes, found.monitor.counts, found.exit_code) == (6, {}, 0)
