"""Runs the TLA+ contract through TLC and compares what it prints with the record in ``manifest.json``.

``python -m model_checking.tlc JAR [--write]``, where JAR is a ``tla2tools.jar`` and ``java`` is at hand. TLC
runs with one worker, so that the depth it prints is that of a breadth-first search, and checks liveness
once, on the whole graph, so that a violated claim does not cut the counts short.

The record keeps a digest of the texts that TLC read: a test fails when they change and TLC did not run again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from model_checking.crosscheck import MANIFEST
from stallproof.errors import StallproofError

SPEC = MANIFEST.parent.parent / "spec"
OPTIONS = ("-workers", "1", "-lncheck", "final", "-noGenerateSpecTE")
HOLDS, VIOLATED_SAFETY, VIOLATED_LIVENESS = 0, 12, 13
"""TLC's exit codes."""

COUNTS = r"^(\d+) states generated, (\d+) distinct states found, 0 states left on queue"


class TlcError(StallproofError):
    """Java or the jar is missing, or TLC could not judge the specification."""


def run(jar: Path, config: str, module: str, options: tuple[str, ...] = OPTIONS) -> dict[str, Any]:
    """What TLC finds for one configuration, in the manifest's words. Raises TlcError with what TLC printed."""
    if not jar.is_file() or shutil.which("java") is None:
        raise TlcError(f"TLC needs java and its jar; {jar} {'is there' if jar.is_file() else 'is not a file'}")
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            ["java", "-cp", jar.resolve(), "tlc2.TLC", *options, "-metadir", scratch, "-config", config, module],
            cwd=SPEC,
            capture_output=True,
            text=True,
            check=False,
        )
    return report(done.stdout, done.returncode)


def report(printed: str, exit_code: int) -> dict[str, Any]:
    """What TLC's output says. Raises TlcError if it is not about an explored specification."""
    counts = re.search(COUNTS, printed, re.MULTILINE)
    depth = re.search(r"^The depth of the complete state graph search is (\d+)", printed, re.MULTILINE)
    if exit_code not in (HOLDS, VIOLATED_SAFETY, VIOLATED_LIVENESS) or counts is None or depth is None:
        raise TlcError(f"TLC ended with code {exit_code}:\n{printed[-2000:]}")
    return {
        "exit_code": exit_code,
        "distinct_states": int(counts[2]),
        "states_generated": int(counts[1]),
        "depth": int(depth[1]),
    }


def digest_of_texts() -> str:
    """SHA-256 of every TLA+ text and configuration, with their names."""
    digest = hashlib.sha256()
    for path in sorted([*SPEC.glob("*.tla"), *SPEC.glob("*.cfg")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def version(jar: Path) -> str:
    """The version TLC prints of itself."""
    printed = subprocess.run(
        ["java", "-cp", jar.resolve(), "tlc2.TLC", "-help"], capture_output=True, text=True, check=False
    ).stdout
    found = re.search(r"Version [^\n]+", printed)
    return found[0].strip() if found else "unknown"


def main() -> int:
    """Check the record, or with --write bring it up to date with TLC."""
    options = argparse.ArgumentParser(description="Compare TLC with the record of what it found.")
    options.add_argument("jar", type=Path, help="tla2tools.jar")
    options.add_argument("--write", action="store_true", help="write what TLC finds into the manifest")
    chosen = options.parse_args()
    manifest = json.loads(MANIFEST.read_text(encoding="utf-8"))
    wrong = []
    for entry in manifest["tlc"]["configurations"]:
        try:
            found = run(chosen.jar, entry["config"], entry["module"], tuple(manifest["tlc"]["options"].split()))
        except TlcError as error:
            print(f"model_checking.tlc: error: {error}", file=sys.stderr)
            return 2
        states = f"{found['distinct_states']:,} states, {found['states_generated']:,} generated"
        print(f"{entry['config']}: {states}, expected {entry['expected']}, exit code {found['exit_code']}")
        if not chosen.write:
            wrong += [
                f"{entry['config']}: {key}: recorded {entry[key]}, TLC {value}"
                for key, value in found.items()
                if entry[key] != value
            ]
        entry.update(found)
    if chosen.write:
        manifest["tlc"].update(tlc_version=version(chosen.jar), texts=digest_of_texts())
        MANIFEST.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(manifest['tlc']['configurations'])} configurations compared, {len(wrong)} disagreements")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
