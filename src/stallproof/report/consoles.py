"""Where output goes: results to standard output, progress and prose beside JSON to standard error."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from stallproof.errors import UsageError
from stallproof.files import write_whole

PIPED_WIDTH = 120


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Rich would exit with 1, which here means violated."""
        raise BrokenPipeError


def console_for(json_target: str | None) -> Console:
    """For people; on standard error if standard output carries JSON. Plain and of fixed width when piped."""
    stream = sys.stderr if json_target == "-" else sys.stdout
    width = None if stream.isatty() else max(PIPED_WIDTH, shutil.get_terminal_size((PIPED_WIDTH, 25)).columns)
    return _Console(file=stream, highlight=False, width=width, soft_wrap=False)


def printed(show: Callable[[Console], None]) -> str:
    """What ``show`` prints, as plain text of fixed width."""
    text = StringIO()
    show(Console(file=text, highlight=False, width=PIPED_WIDTH, color_system=None))
    return text.getvalue().rstrip()


def progress_console() -> Console:
    """For progress, always on standard error."""
    return Console(stderr=True, highlight=False)


def require_writable(path: str | None, option: str) -> None:
    """Refuse early a file that could not be written in the end. Raises UsageError."""
    if path is None or path == "-":
        return
    folder = Path(path).resolve().parent
    if Path(path).is_dir() or not folder.is_dir():
        raise UsageError(f"'{path}' cannot be written", option, "Give a file in a folder that exists.")


def write_json(value: Any, target: str | None) -> None:
    """Write ``value`` to the file ``target``, or to standard output for ``-``. Whole or not at all."""
    if target is None:
        return
    text = json.dumps(value, indent=1) + "\n"
    if target == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    write_whole(target, text, "--json")
