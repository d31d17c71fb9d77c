"""The record of what TLC found is about the texts as they are, and a difference is noticed.

TLC itself runs with ``make spec TLA2TOOLS=...``; here a stand-in for ``java`` prints what TLC prints.
"""

from __future__ import annotations

import json
import sys

import pytest

from model_checking import tlc
from model_checking.crosscheck import MANIFEST

RECORD = json.loads(MANIFEST.read_text(encoding="utf-8"))["tlc"]

PRINTED = """\
Model checking completed. No error has been found.
975421 states generated, 97214 distinct states found, 0 states left on queue.
The depth of the complete state graph search is 30.
"""


def test_tlc_read_the_texts_as_they_are_now():
    """Fails when a TLA+ text or configuration changed since: run ``python -m model_checking.tlc JAR --write``."""
    assert tlc.digest_of_texts() == RECORD["texts"]


def test_a_changed_text_has_another_digest(tmp_path, monkeypatch):
    for path in tlc.SPEC.glob("*.tla"):
        (tmp_path / path.name).write_text(path.read_text() + "\n")
    monkeypatch.setattr(tlc, "SPEC", tmp_path)
    assert tlc.digest_of_texts() != RECORD["texts"]


def test_the_numbers_are_those_that_tlc_prints():
    assert tlc.report(PRINTED, 0) == {
        "exit_code": 0,
        "distinct_states": 97214,
        "states_generated": 975421,
        "depth": 30,
    }


@pytest.mark.parametrize(
    ("printed", "exit_code"),
    [
        ("Error: Parsing or semantic analysis failed.", 150),
        (PRINTED, 1),
        (PRINTED.replace("0 states left", "7 states left"), 0),  # cut off: no verdict
    ],
)
def test_a_run_that_judged_nothing_is_an_error(printed, exit_code):
    with pytest.raises(tlc.TlcError, match=f"code {exit_code}"):
        tlc.report(printed, exit_code)


def test_a_jar_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(tlc.TlcError, match="is not a file"):
        tlc.run(tmp_path / "tla2tools.jar", "MCRequestLifecycle.cfg", "MCRequestLifecycle")


@pytest.mark.parametrize(("states_more", "code"), [(0, 0), (1, 1)], ids=["as recorded", "one state more"])
def test_a_difference_of_one_state_is_a_disagreement(tmp_path, monkeypatch, capsys, states_more, code):
    by_config = {row["config"]: row for row in RECORD["configurations"]}
    java = tmp_path / "java"
    java.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        f"row = {by_config!r}[sys.argv[sys.argv.index('-config') + 1]]\n"
        f"found = row['distinct_states'] + {states_more}\n"
        "print(f\"{row['states_generated']} states generated, {found} distinct states found, \", end='')\n"
        "print('0 states left on queue.')\n"
        "print(f\"The depth of the complete state graph search is {row['depth']}.\")\n"
        "sys.exit(row['exit_code'])\n"
    )
    java.chmod(0o755)
    jar = tmp_path / "tla2tools.jar"
    jar.touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["tlc", str(jar)])
    assert tlc.main() == code
    expected = f"{len(by_config)} configurations compared, {states_more * len(by_config)} disagreements"
    assert expected in capsys.readouterr().out
