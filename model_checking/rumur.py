"""Runs the Murphi text `spec/scheduling_pass.m` through Rumur: generate C, compile, run, read the report."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from stallproof.bounds import Bounds
from stallproof.errors import StallproofError

TEXT = Path(__file__).parent.parent / "spec" / "scheduling_pass.m"
POLICY_NUMBERS = {"resident-first": 0, "helix-published": 1}
OPTIONS = ("--symmetry-reduction", "off", "--deadlock-detection", "off", "--counterexample-trace", "full")


class RumurError(StallproofError):
    """Rumur or the C compiler is missing or failed."""


@dataclass(frozen=True)
class RumurReport:
    """What a run printed. ``trace_length``: rules fired from the start state to the error; None without one."""

    states: int
    rules_fired: int
    failed: bool
    trace_length: int | None


def constants_for(policy: str, bounds: Bounds, claims: int = 0) -> dict[str, int]:
    """The constants of the Murphi text for a policy, bounds and a sum of claims' numbers."""
    return {
        "LIVE": bounds.live,
        "GPU_PAGES": bounds.gpu_pages,
        "HOST_PAGES": bounds.host_pages,
        "PAGE_TOKENS": bounds.page_tokens,
        "CHUNK_TOKENS": bounds.chunk_tokens,
        "MAX_PROMPT": bounds.max_prompt,
        "MAX_OUTPUT": bounds.max_output,
        "CANCEL": int(bounds.cancel),
        "LOOKAHEAD": bounds.lookahead,
        "STATE_PAGES": bounds.state_pages,
        "PRIORITIES": bounds.priorities,
        "PASS_REQUESTS": bounds.pass_requests,
        "PASS_TOKENS": bounds.pass_tokens,
        "COPIES": int(bounds.copies),
        "DRAFTS": (bounds.lookahead + 1) ** bounds.live,
        "POLICY": POLICY_NUMBERS[policy],
        "CLAIMS": claims,
    }


def claim_numbers(text: str) -> dict[str, int]:
    """The number of each claim in the text's constants, by the property's name."""
    block = text[text.index("-- Claims.") : text.index("RESIDENT_FIRST:")]
    return {name.lower().replace("_", "-"): int(number) for name, number in re.findall(r"([A-Z_]+): +(\d+);", block)}


def with_constants(text: str, constants: dict[str, int]) -> str:
    """``text`` with these constants' values. Raises RumurError for one that the text does not have."""
    for name, value in constants.items():
        text, found = re.subn(rf"^(  {name}:\s+)-?\d+;", rf"\g<1>{value};", text, count=1, flags=re.MULTILINE)
        if not found:
            raise RumurError(f"the Murphi text has no constant {name}")
    return text


def run(text: str, constants: dict[str, int], optimisation: str = "-O1") -> RumurReport:
    """Check ``text`` with ``constants``, one thread, breadth first, so that an error's trace is a shortest one.

    ``optimisation``: gcc's; of a small model compiling takes longer than running.
    """
    for program in ("rumur", "gcc"):
        if shutil.which(program) is None:
            raise RumurError(f"'{program}' is not installed. On Debian: apt-get install {program}")
    with tempfile.TemporaryDirectory() as folder:
        model, code, binary = (Path(folder) / name for name in ("model.m", "model.c", "model"))
        model.write_text(with_constants(text, constants), encoding="utf-8")
        _call(
            ["rumur", "--output", str(code), "--threads", "1", *OPTIONS, str(model)],
        )
        _call(["gcc", optimisation, "-march=native", "-mcx16", "-o", str(binary), str(code), "-lpthread"])
        output = subprocess.run([str(binary)], capture_output=True, text=True, check=False).stdout
    return read_report(output)


def _call(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RumurError(f"{command[0]} failed: {done.stderr.strip() or done.stdout.strip()}")


def read_report(output: str) -> RumurReport:
    """Rumur's own words, read."""
    size = re.search(r"(\d+) states, (\d+) rules fired", output)
    if size is None:
        raise RumurError(f"Rumur's run did not report its size: {output[-500:]}")
    failed = "No error found" not in output
    fired = len(re.findall(r"^Rule .* fired\.$", output, flags=re.MULTILINE))
    return RumurReport(int(size[1]), int(size[2]), failed, fired if failed else None)
