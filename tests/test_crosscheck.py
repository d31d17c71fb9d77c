"""The Murphi text and the code are held against each other; a change of either alone is noticed.

The whole comparison is ``python -m model_checking.crosscheck``, which ``make test`` runs after the tests.
"""

import json
import shutil

import pytest

from model_checking import rumur
from model_checking.crosscheck import MANIFEST, bounds_of, disagreements, of_explorer
from model_checking.defects import bypass, freed_pages_stolen, victims_in_vain
from stallproof.checking import check
from stallproof.properties import PROPERTIES

MODELS = json.loads(MANIFEST.read_text(encoding="utf-8"))["models"]
TEXT = rumur.TEXT.read_text(encoding="utf-8")
needs_rumur = pytest.mark.skipif(shutil.which("rumur") is None, reason="rumur is not installed")


def model(name):
    return next(entry for entry in MODELS if entry["name"] == name)


PRESSED = model("resident-first live 3 gpu-pages 4 host-pages 1")
ROOMIER = model("resident-first live 3 gpu-pages 6 host-pages 1 max-output 4")
NO_HOST = model("resident-first live 3 gpu-pages 4 host-pages 0")


def test_the_manifest_has_two_dozen_models_of_both_policies_and_every_kind_of_pool():
    """At least 24 bounds; no, small and roomy host; page sizes 1 and 2; chunks 1 to 3."""
    bounds = [bounds_of(entry) for entry in MODELS]
    assert len(MODELS) >= 24
    assert {entry["policy"] for entry in MODELS} == {"resident-first", "helix-published"}
    assert {0, 1, 2} <= {b.host_pages for b in bounds}
    assert any(b.host_pages > b.gpu_pages for b in bounds)
    assert {1, 2} <= {b.page_tokens for b in bounds}
    assert {1, 2, 3} <= {b.chunk_tokens for b in bounds}


def test_names_in_the_manifest_are_unique():
    names = [entry["name"] for entry in MODELS]
    assert len(names) == len(set(names))


def test_the_text_judges_every_property_that_can_fail():
    """The claims of the Murphi text are the always- and eventually-properties, by name."""
    by_code = {claim.name for claim in PROPERTIES if claim.kind.value != "sometimes"}
    assert set(rumur.claim_numbers(TEXT)) == by_code


def test_each_claim_of_the_text_is_looked_at_somewhere():
    """A claim's name occurs in its definition and at least once where it is judged."""
    for name in rumur.claim_numbers(TEXT):
        assert TEXT.count(f"claimed({name.upper().replace('-', '_')})") >= 1, name


@pytest.mark.parametrize("entry", [e for e in MODELS if e["size"] == "small"], ids=lambda e: e["name"])
def test_the_explorer_finds_what_the_manifest_says(entry):
    for key, value in of_explorer(entry).items():
        assert entry[key] == value, key


def test_a_missing_constant_is_an_error():
    with pytest.raises(rumur.RumurError, match="no constant"):
        rumur.with_constants(TEXT.replace("  LIVE: ", "  LIFE: "), {"LIVE": 3})


EDITS = {
    "R4, a newer request overtakes": (
        "        elsif POLICY = RESIDENT_FIRST then\n          return;  -- R4\n",
        "",
        PRESSED,
    ),
    "R5, freed pages are given away": ("          return;  -- K6, R5\n", "", PRESSED),
    "R7, anybody is given up": (
        "  return POLICY = HELIX_PUBLISHED | missing(requester, tokens) <= available_without_all(requester);\n",
        "  return true;\n",
        ROOMIER,
    ),
    "H2, the oldest is suspended first": (
        "    if HOST_PAGES > 0 then v := newest_candidate(r, ACTIVE); end;\n",
        "    if HOST_PAGES > 0 then for c: row do if v = NOBODY & candidate(r, c) & requests[c].phase = ACTIVE"
        " then v := c; end; end; end;\n",
        model("resident-first live 4 gpu-pages 6 host-pages 2 max-prompt 4 max-output 4"),
    ),
}


@needs_rumur
@pytest.mark.parametrize("rule", EDITS)
def test_a_change_of_one_rule_in_the_text_alone_is_a_disagreement(rule):
    old, new, entry = EDITS[rule]
    assert TEXT.count(old) == 1
    assert disagreements(entry | {"failing": {}}, TEXT.replace(old, new))


@needs_rumur
def test_the_unchanged_text_agrees():
    """So that the disagreements above come from the edits."""
    assert disagreements(NO_HOST, TEXT) == []


@pytest.mark.parametrize("defect", [bypass, freed_pages_stolen, victims_in_vain])
def test_a_change_of_one_rule_in_the_code_alone_is_a_disagreement(defect):
    """The same rules (R4, R5, R7) changed in the policy: the counts are no longer those of the manifest."""
    result = check(defect.POLICY, bounds_of(ROOMIER))
    assert (result.states, result.transitions) != (ROOMIER["states"], ROOMIER["transitions"])
