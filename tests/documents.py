"""Runs the code blocks of a guide, and holds what it shows against what comes out.

A ``python`` block under a line ``# name.py`` is that file from then on; another one is run. In a ``console`` block
a line after ``$`` is run by a shell's rules of quoting, no more; what follows is its output, ``...`` standing for any
lines. White space is compared as one space, so that a line may be broken elsewhere. A traceback is never right.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# ([\w.]+\.py)\n")
ANYTHING = "..."


class Command(NamedTuple):
    """One command of a console block, and the output that the guide shows."""

    words: list[str]
    shown: str


def blocks_of(text: str) -> Iterator[tuple[str, str]]:
    """The language and the content of each block that is run, in order."""
    yield from ((block[1], block[2]) for block in BLOCK.finditer(text))


def commands_of(block: str) -> Iterator[Command]:
    """The commands of a console block."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, _, shown = part.partition("\n")
        yield Command(shlex.split(line), shown)


def difference(shown: str, came: str) -> str:
    """What the guide shows and did not come out, from the first such piece on; '' if all came, in order."""
    where, came = 0, _as_one_line(came)
    pieces = [_as_one_line(piece) for piece in re.split(rf"^{re.escape(ANYTHING)}$", shown, flags=re.MULTILINE)]
    for number, piece in enumerate(pieces):
        at_start = number == 0 and piece
        found = 0 if at_start and came.startswith(piece) else -1 if at_start else came.find(piece, where)
        if found < 0:
            return piece
        where = found + len(piece)
    return "" if not pieces[-1] or came.endswith(pieces[-1]) else pieces[-1]


def _as_one_line(text: str) -> str:
    return " ".join(text.split())


def program(words: list[str]) -> list[str]:
    """``stallproof``, ``python`` and ``pytest`` are those of this environment."""
    name, *rest = words
    known = {"stallproof": ["-m", "stallproof.cli"], "pytest": ["-m", "pytest"], "python": []}
    if name not in known:
        raise AssertionError(f"a guide runs stallproof, python or pytest, not {name}")
    return [sys.executable, *known[name], *rest]


def run_guide(path: Path, folder: Path, environment: dict[str, str]) -> int:
    """Run all blocks of the guide in ``folder``. Returns how many. Raises AssertionError with what did not come out."""
    blocks = list(blocks_of(path.read_text(encoding="utf-8")))
    for language, block in blocks:
        named = FILE_NAME.match(block) if language == "python" else None
        if named:
            (folder / named[1]).write_text(block[named.end() :], encoding="utf-8")
        elif language == "python":
            _run([sys.executable, "-c", block], folder, environment, (0,), block)
        else:
            for command in commands_of(block):
                came = _run(program(command.words), folder, environment, (0, 1, 2), shlex.join(command.words))
                missing = difference(command.shown, came)
                assert not missing, f"$ {shlex.join(command.words)}\nnot in its output: {missing}\n\n{came}"
    return len(blocks)


def _run(words: list[str], folder: Path, environment: dict[str, str], good: tuple[int, ...], what: str) -> str:
    done = subprocess.run(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode in good, f"{what}\nexit code {done.returncode}\n{done.stdout}"
    assert "Traceback" not in done.stdout, f"{what}\n{done.stdout}"
    return done.stdout
