"""A counterexample is certified only if it really is one, by a checker that shares no search with the explorer."""

import ast
import copy
import inspect

import pytest

from stallproof import certifier
from stallproof.bounds import Bounds
from stallproof.certifier import CertificationError, certify_all
from stallproof.checking import check
from stallproof.traces import as_json

MODELS = {
    "dead end": Bounds(gpu_pages=4, host_pages=0),
    "livelock": Bounds(gpu_pages=6, host_pages=1, max_output=4),
    "starvation and useless victims": Bounds(),
}


@pytest.fixture(scope="module")
def traces():
    """Every counterexample of the published rules in three bounds, by bounds and property."""
    return {
        (model, failure.name): as_json(failure.trace)
        for model, bounds in MODELS.items()
        for failure in check("helix-published", bounds).failures
    }


def test_every_counterexample_of_the_published_rules_is_certified(traces):
    certificates = certify_all(list(traces.values()))
    assert [c.property for c in certificates] == [name for _, name in traces]
    assert [c.steps for c in certificates] == [len(trace["steps"]) for trace in traces.values()]
    assert all(
        (c.loop > 0) is (trace["loop_start"] is not None)
        for c, trace in zip(certificates, traces.values(), strict=True)
    )


def test_certify_refuses_to_run_compiled(traces):
    if certifier.INTERPRETED:
        pytest.skip("this process is interpreted")
    with pytest.raises(CertificationError, match="NUMBA_DISABLE_JIT"):
        certifier.certify(traces["dead end", "no-dead-end"])


def another_property(trace):
    trace["property"] = "no-livelock"


def a_sometimes_property(trace):
    trace["property"] = "sometimes-suspends"


def an_earlier_loop(trace):
    trace["loop_start"] -= 1


def no_loop(trace):
    trace["loop_start"] = None


def a_step_less(trace):
    del trace["steps"][1]


def a_cut_stem(trace):
    trace["steps"] = trace["steps"][2:]


def a_long_prompt(trace):
    trace["steps"][0]["prompt"] = 4


def a_long_output(trace):
    trace["steps"][0]["output"] = 4


def an_infeasible_arrival(trace):
    trace["steps"][0] |= {"prompt": 3, "output": 3}


def a_refusal_of_what_fits(trace):
    trace["steps"][0]["move"] = "refuse"


def a_stop_of_a_prefill(trace):
    trace["steps"][3] |= {"move": "stop", "request": 0}


def a_cancel_of_nobody(trace):
    trace["steps"][3] |= {"move": "cancel", "request": 2}


def an_unknown_move(trace):
    trace["steps"][3]["move"] = "wait"


def a_request_too_many(trace):
    trace["steps"][2]["after"].append(trace["steps"][2]["after"][0])


@pytest.mark.parametrize(
    ("tamper", "sentence"),
    [
        (another_property, "fulfils no-livelock"),
        (a_sometimes_property, "no trace can show"),
        (an_earlier_loop, "does not close"),
        (no_loop, "names no loop"),
        (a_step_less, "step 2: "),
        (a_cut_stem, "step 1: "),
        (a_long_prompt, "step 1: a prompt of 4"),
        (a_long_output, "step 1: an output of 4"),
        (an_infeasible_arrival, "step 1: a request arrives if it can ever fit"),
        (a_refusal_of_what_fits, "step 1: a request arrives if it can ever fit"),
        (a_stop_of_a_prefill, "step 4: only an active decode"),
        (a_cancel_of_nobody, "step 4: there is no request in row 2"),
        (an_unknown_move, "step 4: 'wait' is no move"),
        (a_request_too_many, "step 3: 2 requests are live, 3 recorded"),
    ],
)
def test_a_trace_that_shows_something_else_is_refused_with_the_step(traces, tamper, sentence):
    """The trace of four steps: two arrivals, a pass, a pass for ever."""
    trace = copy.deepcopy(traces["dead end", "no-dead-end"])
    tamper(trace)
    with pytest.raises(CertificationError, match=sentence):
        certify_all([trace])


@pytest.mark.parametrize(
    "field", ["number", "phase", "decoding", "tokens", "output_left", "computed", "gpu_pages", "host_pages"]
)
def test_a_state_that_the_pass_does_not_make_is_refused_with_its_field(traces, field):
    trace = copy.deepcopy(traces["livelock", "no-livelock"])
    state = trace["steps"][4]["after"][1]
    state[field] = {"phase": "active", "decoding": False}.get(field, 99)
    with pytest.raises(CertificationError, match=rf"step 5: R2, {field}: "):
        certify_all([trace])


def test_a_loop_in_which_only_the_environment_moves_is_refused(traces):
    """Arrive and cancel for ever behind a waiting request: the oldest stays, but no pass was made."""
    arrival = traces["dead end", "no-dead-end"]["steps"][0]
    second = copy.deepcopy(arrival)
    second["after"] = [arrival["after"][0], arrival["after"][0] | {"number": 2}]
    cancel = arrival | {"move": "cancel", "request": 1}
    trace = traces["dead end", "oldest-finishes"] | {"loop_start": 1, "steps": [arrival, second, cancel]}
    with pytest.raises(CertificationError, match="no pass in the loop"):
        certify_all([trace])


def test_the_certifier_knows_neither_explorer_nor_model_nor_traces():
    names = {
        node.module if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(ast.parse(inspect.getsource(certifier)))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert not {
        name
        for name in names
        if name.startswith(tuple(f"stallproof.{m}" for m in ("explorer", "model", "traces", "checking")))
    }
