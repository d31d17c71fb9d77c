"""The cross-check: Rumur on the Murphi text and the explorer on the shipped code must agree.

``manifest.json`` lists the models. For each: the same number of states and of transitions (Rumur:
rules fired; the start state is not counted, self-loops and repeated states are), the same verdict on
every property, and for each that fails a shortest counterexample of the same length.

How a lasso is compared: the Murphi text remembers one state on the way and fails when it comes back, so
Rumur's shortest failing run has stem + loop + 1 steps, minimal over all states the loop may start in. The
explorer's lasso has a shortest stem first. So the manifest keeps both: ``trace_length`` is the explorer's,
``lasso_minimum`` the least stem + loop, which the explorer's graph gives by trying every state.

Run it: ``python -m model_checking.crosscheck [--large] [--write]``.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from model_checking import rumur
from model_checking.lassos import least_lasso
from stallproof.bounds import Bounds
from stallproof.checking import CheckResult, check
from stallproof.claims import Kind
from stallproof.policies import policy_named
from stallproof.properties import PROPERTIES

MANIFEST = Path(__file__).parent / "manifest.json"
KINDS = {claim.name: claim.kind for claim in PROPERTIES}
LASSOS_UP_TO = 1_500
LASSOS_ON_EVERY_CHANGE_UP_TO = 400
"""To remember a state multiplies Rumur's states by as many; in larger models lassos are not compared.

Nor are they where copies take time: there a lasso must be fair, and the Murphi text does not look for that."""


def bounds_of(entry: dict[str, Any]) -> Bounds:
    """The bounds of a manifest entry; what it leaves out has the default."""
    return Bounds(**entry["bounds"])


def of_explorer(entry: dict[str, Any]) -> dict[str, Any]:
    """What the explorer finds, in the manifest's words."""
    policy = policy_named(entry["policy"])
    policy = replace(policy, unclaimed=policy.unclaimed | frozenset(entry.get("unclaimed", ())))
    result = check(policy, bounds_of(entry))
    return {
        "verdict": result.verdict.value,
        "states": result.states,
        "transitions": result.transitions,
        "depth": result.depth,
        "digest": result.digest,
        "failing": failing_of(result),
    }


def failing_of(result: CheckResult) -> dict[str, dict[str, Any]]:
    """Each failing always- or eventually-property: claimed or not, and the length of its shortest trace."""
    failing = {}
    for failure in result.failures:
        if failure.kind is Kind.SOMETIMES:
            continue
        failing[failure.name] = {"claimed": failure.claimed, "trace_length": failure.trace_length}
        if failure.kind is Kind.EVENTUALLY and result.states <= LASSOS_UP_TO and not result.bounds.copies:
            failing[failure.name]["lasso_minimum"] = least_lasso(result.policy, result.bounds, failure.name)
    return failing


def disagreements(entry: dict[str, Any], text: str, lassos_up_to: int = LASSOS_UP_TO) -> list[str]:
    """How Rumur on ``text`` differs from what the manifest says of the explorer. Empty: they agree."""
    bounds, numbers = bounds_of(entry), rumur.claim_numbers(text)
    found: list[str] = []

    def compare(what: str, by_rumur: object, by_explorer: object) -> None:
        if by_rumur != by_explorer:
            found.append(f"{entry['name']}: {what}: Rumur {by_rumur}, explorer {by_explorer}")

    def run(claims: int) -> rumur.RumurReport:
        optimisation = "-O1" if entry["size"] == "small" else "-O2"
        return rumur.run(text, rumur.constants_for(entry["policy"], bounds, claims), optimisation)

    failing = entry["failing"]
    steps = {name: number for name, number in numbers.items() if KINDS[name] is Kind.ALWAYS}
    report = run(sum(number for name, number in steps.items() if name not in failing))
    compare("a claim about a step fails that should hold", report.failed, False)
    compare("states", report.states, entry["states"])
    compare("transitions", report.rules_fired, entry["transitions"])
    for name in steps.keys() & failing.keys():
        compare(f"steps to the failure of {name}", run(numbers[name]).trace_length, failing[name]["trace_length"])
    if entry["states"] <= lassos_up_to and not bounds.copies:
        for name in numbers.keys() - steps.keys():
            expected = failing[name]["lasso_minimum"] + 1 if name in failing else None
            compare(f"steps of the least lasso of {name}, and 1", run(numbers[name]).trace_length, expected)
    return found


def main() -> int:
    """Check the manifest, or with --write bring it up to date with the explorer first."""
    options = argparse.ArgumentParser(description="Compare Rumur with the explorer.")
    options.add_argument("--large", action="store_true", help="the large models too")
    options.add_argument("--write", action="store_true", help="write what the explorer finds into the manifest")
    chosen = options.parse_args()
    manifest = json.loads(MANIFEST.read_text(encoding="utf-8"))
    entries = [entry for entry in manifest["models"] if chosen.large or entry["size"] == "small"]
    wrong: list[str] = []
    for entry in entries:
        found = of_explorer(entry)
        if chosen.write:
            entry.update(found)
        else:
            wrong += [
                f"{entry['name']}: {key}: manifest {entry.get(key)}, explorer {value}"
                for key, value in found.items()
                if entry.get(key) != value
            ]
    if chosen.write:
        MANIFEST.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    text = rumur.TEXT.read_text(encoding="utf-8")
    up_to = LASSOS_UP_TO if chosen.large else LASSOS_ON_EVERY_CHANGE_UP_TO
    with ThreadPoolExecutor(2) as pool:
        for entry, differences in zip(
            entries, pool.map(lambda entry: disagreements(entry, text, up_to), entries), strict=True
        ):
            print(
                f"{entry['name']}: {entry['states']:,} states, {entry['transitions']:,} transitions, {entry['verdict']}"
            )
            wrong += differences
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(entries)} models compared, {len(wrong)} disagreements")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
