"""Defects of the shelf as edits of the Murphi text: Rumur must find the same failure, in as many steps.

For a lasso Rumur needs a step more, the one in which the remembered state comes back; see
:mod:`model_checking.crosscheck`. Run it: ``python -m model_checking.twins``.
"""

from __future__ import annotations

import sys

from model_checking import rumur
from model_checking.crosscheck import KINDS
from model_checking.defects import SHELF
from stallproof.claims import Kind

R7 = (
    "  return POLICY = HELIX_PUBLISHED | missing(requester, tokens) <= available_without_all(requester);\n",
    "  return true;\n",
)
FOR_PREFILL = "  if POLICY = RESIDENT_FIRST then return newest_helpful(requester); end;\n  active := NOBODY;\n"
PAUSE = "  requests[v].phase := RECOMPUTE_PAUSED;\n"

EDITS: dict[str, list[tuple[str, str]]] = {
    "context-ignores-suspended": [
        (
            FOR_PREFILL,
            "  if POLICY = RESIDENT_FIRST then\n    active := newest_helpful(requester);\n"
            "    if active = NOBODY then return NOBODY; end;\n"
            "    if requests[active].phase = ACTIVE then return active; end;\n    return NOBODY;\n  end;\n"
            + FOR_PREFILL,
        )
    ],
    "suspended-before-active": [
        ("      if requests[v].phase = ACTIVE then active := v; else other := v; end;\n    end;\n  end;\n"
         "  if active != NOBODY then return active; end;\n  return other;\nend;\n\n-- H3",
         "      other := v;\n    end;\n  end;\n  return other;\nend;\n\n-- H3")
    ],
    "host-resident-victim": [
        R7,
        ("candidate(requester, v) & available_without(requester, v) > available(requester) then\n      if",
         "candidate(requester, v) then\n      if"),
    ],
    "suspend-without-lower-tier": [
        ("if HOST_PAGES > 0 then v := newest_candidate(r, ACTIVE); end;\n", "v := newest_candidate(r, ACTIVE);\n")
    ],
    "freed-pages-stolen": [("          return;  -- K6, R5\n", "")],
    "shielded-by-newer-decode": [
        (
            FOR_PREFILL,
            "  for v: row do\n    if requests[v].phase = ACTIVE & requests[v].decoding & requests[v].gpu > 0 then"
            " return NOBODY; end;\n  end;\n" + FOR_PREFILL,
        )
    ],
    "bypass": [("        elsif POLICY = RESIDENT_FIRST then\n          return;  -- R4\n", "")],
    "replay-truncated": [
        (PAUSE, "  if requests[v].decoding then requests[v].tokens := requests[v].computed; end;\n" + PAUSE)
    ],
    "replay-not-from-zero": [(PAUSE + "  requests[v].computed := 0;\n", PAUSE)],
    "victims-in-vain": [R7],
    "fenced-victim": [(" & scheduled[v] = 0 & requests[v].copying = 0\n", " & scheduled[v] = 0\n")],
}  # fmt: skip
"""What is replaced in the text by what, for each defect that it can have."""

ON_EVERY_CHANGE = ("shielded-by-newer-decode", "bypass", "fenced-victim")
"""Rumur and the C compiler take three seconds each; ``make verify`` has them all."""

DEFECTS = {defect.name: defect for defect in SHELF}


def edited(text: str, name: str) -> str:
    """``text`` with the defect. Raises RumurError if the text has changed too much for that."""
    for old, new in EDITS[name]:
        if text.count(old) != 1:
            raise rumur.RumurError(f"{name}: the text has what is to be replaced {text.count(old)} times")
        text = text.replace(old, new)
    return text


def steps_by_rumur(name: str, text: str) -> int | None:
    """Steps to the failure of what the defect breaks, in ``text``, which may have it; None if it does not fail."""
    defect = DEFECTS[name]
    claim = rumur.claim_numbers(text)[defect.breaks]
    found = rumur.run(text, rumur.constants_for("resident-first", defect.bounds, claim), "-O0").trace_length
    if found is None or KINDS[defect.breaks] is Kind.ALWAYS:
        return found
    return found - 1


def main() -> int:
    """All of them; exit code 1 if Rumur disagrees with the table."""
    text = rumur.TEXT.read_text(encoding="utf-8")
    wrong = 0
    for name in EDITS:
        found, expected = steps_by_rumur(name, edited(text, name)), DEFECTS[name].steps
        wrong += found != expected
        print(f"{name}: {DEFECTS[name].breaks}, Rumur {found} steps, the table {expected}")
    print(f"{len(EDITS)} defects compared, {wrong} disagreements")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
