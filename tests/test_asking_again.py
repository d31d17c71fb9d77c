"""A rule that does not always answer the same is found out; one that does is not accused."""

from __future__ import annotations

import pytest
from policies.files import GOOD, HEAD, rule

from stallproof.bounds import Bounds
from stallproof.checking import check
from stallproof.errors import PolicyFileError

SMALL = Bounds(live=2, gpu_pages=4, host_pages=0)


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Writes the file, and returns what it is called."""
    monkeypatch.chdir(tmp_path)

    def write(text, name="rule"):
        (tmp_path / "mine.py").write_text(text)
        return f"mine.py:{name}"

    return write


def test_chance_is_found_out(mine):
    place = mine("import random\n\n\n" + rule("return random.randint(0, 1) > 0", decorator="decision"))
    with pytest.raises(PolicyFileError, match="asked twice in the same state it did not answer the same") as caught:
        check(place, SMALL)
    assert "mine.py, line" in caught.value.place
    assert "no chance, no clock" in caught.value.remedy


def test_a_rule_that_answers_the_same_is_not_accused(mine):
    assert check(mine(HEAD + GOOD, "newest"), SMALL).verdict.value == "holds"


def test_a_search_cut_off_is_compared_as_far_as_it_went(mine):
    assert check(mine(HEAD + GOOD, "newest"), SMALL, max_states=40).verdict.value == "bound reached"
