"""What README and docs take from the manifest, the transition table and the properties is up to date."""

import pytest

from model_checking import tables


@pytest.mark.parametrize("name", tables.FILES)
def test_the_generated_parts_are_what_their_sources_say(name):
    text = (tables.ROOT / name).read_text(encoding="utf-8")
    assert "<!-- generated:" in text
    assert tables.regenerated(text) == text, "run: python -m model_checking.tables --write"


def test_a_stale_part_is_noticed():
    stale = "<!-- generated: vocabulary -->\nold\n<!-- end -->"
    assert tables.regenerated(stale) != stale
