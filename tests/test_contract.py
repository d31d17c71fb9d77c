"""The TLA+ contract: its actions are the lifecycle's table, its numbers the explorer's.

``model_checking/manifest.json`` keeps what TLC printed. The explorer explores the same bounds through an
independent text of the contract, ``model_checking/contract.py``, and judges the same claims.
"""

from __future__ import annotations

import json
import re
from functools import cache

import numpy as np
import pytest
from conftest import ROOT

from model_checking.contract import CLAIMS, SAFETY, Action, Constants, ContractModel, pack, unpack
from model_checking.fairness import Facts
from stallproof.claims import Verdict
from stallproof.explorer import explore, path_to
from stallproof.lifecycle import TRANSITIONS, Event, Phase
from stallproof.lookup import ILLEGAL

SPEC = ROOT / "spec"
MODULE = (SPEC / "RequestLifecycle.tla").read_text()
MC_MODULE = (SPEC / "MCRequestLifecycle.tla").read_text()


RECORD = json.loads((ROOT / "model_checking" / "manifest.json").read_text())["tlc"]["configurations"]
EACH = pytest.mark.parametrize("row", RECORD, ids=[row["config"] for row in RECORD])
LIVENESS = {"EveryRequestFinishes", "NobodyStaysWithout", "FinishingStops"}


def constants_of(row):
    named = row["constants"]
    return Constants(
        len(named["Requests"]),
        *(named[name] for name in ("GpuPages", "HostPages", "PageTokens", "ChunkTokens")),
        *(tuple(named[name]) for name in ("Prompts", "Outputs")),
    )


@cache
def explored(constants):
    model = ContractModel(constants)
    return model, explore(model)


def value(text):
    if text.startswith("{"):
        return [int(part) if part.isdigit() else part for part in re.findall(r"\w+", text)]
    return int(text)


def test_every_configuration_is_recorded_once():
    assert sorted(row["config"] for row in RECORD) == sorted(path.name for path in SPEC.glob("*.cfg"))


@EACH
def test_the_record_says_what_its_configuration_says(row):
    text = (SPEC / row["config"]).read_text()
    assert {name: value(given) for name, given in re.findall(r"^  (\w+) = (.+)$", text, re.M)} == row["constants"]
    assert re.findall(r"^SPECIFICATION (\w+)$", text, re.M) == [row["specification"]]
    assert re.findall(r"^(?:  |PROPERTY )(\w+)$", text, re.M) == row["claims"]
    assert re.findall(r"Expected: (\w+)\.", text) == [row["expected"]]
    assert row["exit_code"] == {"holds": 0, "violated": 13}[row["expected"]]
    for name in (row["specification"], *row["claims"]):
        assert re.search(rf"^{name} ==", MODULE + MC_MODULE, re.M), name


@EACH
def test_the_explorer_counts_what_tlc_counts(row):
    _, found = explored(constants_of(row))
    assert found.complete
    assert found.states == row["distinct_states"]
    assert found.transitions + 1 == row["states_generated"]  # TLC counts the initial state
    assert found.depth + 1 == row["depth"]  # and the states of a path, not its steps


@EACH
def test_the_explorer_judges_as_tlc_does(row):
    """TLC stops at the first violation, so a violated configuration has one claim."""
    model, found = explored(constants_of(row))
    facts = Facts(model, found)
    safety = {name: found.findings[SAFETY[name].name].verdict for name in row["claims"] if name in SAFETY}
    liveness = {name: facts.holds(row["specification"], name) for name in row["claims"] if name in LIVENESS}
    assert {*safety, *liveness} == {*row["claims"]} - {"TypeInvariant"}
    assert set(safety.values()) <= {Verdict.HOLDS}
    assert len(row["claims"]) == 1 or row["expected"] == "holds"
    assert set(liveness.values()) <= {row["expected"] == "holds"}


@EACH
def test_every_event_of_the_table_happens(row):
    _, found = explored(constants_of(row))
    assert {finding.verdict for finding in found.findings.values()} <= {Verdict.HOLDS, Verdict.NOT_APPLICABLE}


def test_only_suspension_can_be_missing_and_only_without_a_lower_tier():
    missing = {
        (row["config"], claim.name)
        for row in RECORD
        for claim in CLAIMS
        if explored(constants_of(row))[1].findings[claim.name].verdict is Verdict.NOT_APPLICABLE
    }
    gpu_only = "MCRequestLifecycleGpuOnly.cfg"
    assert missing == {(gpu_only, f"{event}-happens") for event in ("suspend", "migrate", "resume")}


def actions_of_the_spec():
    """Per action, by name: the phases it goes from and the phase it goes to."""
    named = {"Vacant": {"new"}}  # a finished request's place is as good as new
    return {
        name: (named.get(sources) or set(re.findall(r'"([\w-]+)"', sources)), target)
        for name, sources, target in re.findall(
            r'^(\w+)\(r(?:, \w+)*\) ==\n  /\\ Goes\(r, (\w+|\{[^}]*\}), "([\w-]+)"\)$', MODULE, re.M
        )
    }


def test_the_actions_of_the_spec_are_the_rows_of_the_table():
    table = {
        row.event.name.title().replace("_", ""): ({source.label for source in row.sources}, row.target.label)
        for row in TRANSITIONS
    }
    assert actions_of_the_spec() == table


def test_the_next_state_relation_has_every_action_once():
    [body] = re.findall(r"^Next == (.*?)\n\n", MODULE, re.M | re.S)
    assert sorted(re.findall(r"(\w+)\(r", body)) == sorted(actions_of_the_spec())


def test_nothing_but_an_action_moves_a_request():
    """``phase'`` is set in one place only: the operator that names a row of the table."""
    assert len(re.findall(r"phase' = ", MODULE)) == 1


def test_every_invariant_of_the_spec_has_a_claim_and_is_checked():
    [part] = re.findall(r"^RECURSIVE Sum.*?^-----", MODULE, re.M | re.S)
    defined = set(re.findall(r"^(\w+) ==", part, re.M))
    assert defined == set(SAFETY)
    checked = [set(row["claims"]) for row in RECORD if {"TypeInvariant"} & set(row["claims"])]
    assert len(checked) == 3
    assert all(defined < claims for claims in checked)


def test_a_run_replays_from_its_labels():
    """Packed rows, labels and actions say the same: the deepest state is reached again, step by step."""
    model, found = explored(constants_of(RECORD[0]))
    steps = path_to(found, found.states - 1)
    rows = model.initial_rows()
    for step in steps[1:]:
        action = Action.of_label(step.label)
        assert model.enabled(unpack(rows), action).all(), action
        rows = pack(model.apply(unpack(rows), action))
        assert (rows == step.row).all()


@pytest.mark.parametrize(
    ("event", "column", "off_by", "broken"),
    [
        (Event.RESUME, "free_host", -1, "PagesConserved"),
        (Event.FINISH, "tokens", 1, "VacantIsEmpty"),
        (Event.RECOMPUTE_PAUSE, "gpu", 1, "WaitingHoldsNothing"),
        (Event.GROW, "host", 1, "ActiveOnGpu"),
        (Event.SCHEDULE, "computed", 1, "PagesOfItsTokens"),
        (Event.ARRIVE, "left", 3, "LiveIsFeasible"),
        (Event.RECOMPUTE_PAUSE, "tokens", -1, "TokensPreserved"),
        (Event.RECOMPUTE_PAUSE, "computed", 1, "ReplayFromZero"),
        (Event.MIGRATE, "host", -1, "HeldPagesKept"),
    ],
)
def test_an_action_with_one_number_off_breaks_the_claim(event, column, off_by, broken):
    class Wrong(ContractModel):
        def apply(self, before, action):
            after = super().apply(before, action)
            if action.event is event:
                numbers = getattr(after, column)
                numbers[(..., action.request) if numbers.ndim > 1 else ...] += off_by
            return after

    assert broken_by(Wrong(Constants(1, 3, 1, 1, 2, (1, 2), (1, 3))), broken)


@pytest.mark.parametrize(
    ("event", "host_pages", "broken"),
    [(Event.SUSPEND, 0, "SuspendedNeedsLowerTier"), (Event.RECOMPUTE_PAUSE, 1, "FinishedWorkIsKept")],
)
def test_an_action_without_its_guard_breaks_the_claim(event, host_pages, broken):
    class Wrong(ContractModel):
        def enabled(self, states, action):
            allowed = self.next_phases(states, action) != ILLEGAL
            return allowed if action.event is event else super().enabled(states, action)

    assert broken_by(Wrong(Constants(1, 3, host_pages, 1, 2, (1, 2), (1, 3))), broken)


def broken_by(model, claim):
    return explore(model, max_states=2000).findings[SAFETY[claim].name].verdict is Verdict.VIOLATED


def test_packing_loses_nothing():
    _, found = explored(constants_of(RECORD[0]))
    assert (pack(unpack(found.rows)) == found.rows).all()
    assert set(np.unique(unpack(found.rows).phase)) == set(Phase)
