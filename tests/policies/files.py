"""Policies in files, written for a test. HEAD is four lines long, so that a rule's ``def`` stands in line 6."""

from __future__ import annotations

import os
import subprocess
import sys

from stallproof.compiled import interpreted_environment

HEAD = """import numba

from stallproof.policies import ACTIVE, NOBODY, RESIDENT_FIRST, Policy, Rules, decision, is_candidate, victim

"""

GOOD = """@victim
def newest(requests, tiers, plan, requester, tokens):
    \"\"\"The newest candidate.\"\"\"
    for r in range(len(requests.phase) - 1, requester, -1):
        if is_candidate(requests, plan.scheduled, requester, r):
            return r
    return NOBODY
"""


def rule(*body, decorator="victim", arguments="requests, tiers, plan, requester, tokens"):
    """A file with one rule of the name ``rule``: its ``def`` stands in line 6, its body from line 7 on."""
    lines = [f"@{decorator}", f"def rule({arguments}):", *(f"    {line}" for line in body)]
    return HEAD + "\n".join(lines) + "\n"


def stallproof(*arguments, interpreted=False, cwd=None):
    """Run the program in a process of its own, and return exit code, standard output and standard error."""
    environment = interpreted_environment() if interpreted else dict(os.environ)
    done = subprocess.run(
        [sys.executable, "-m", "stallproof.cli", *map(str, arguments)],
        capture_output=True, text=True, check=False, env=environment, cwd=cwd,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr
