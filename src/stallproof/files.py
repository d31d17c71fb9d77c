"""Writing files: whole or not at all, and an error that says where and what to do."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from stallproof.errors import UsageError

READABLE = 0o644
"""Of a new file: a temporary one would be its owner's alone."""


def write_whole(target: str | Path, text: str, option: str = "") -> None:
    """Write ``text`` to the file ``target``, whole or not at all; what stood there stays until then.

    ``option``: the command line's, for the error. Raises UsageError if it cannot be written.
    """
    path = Path(target).resolve()  # a link stays a link
    try:
        if path.exists() and not path.is_file():  # a device, a pipe: nothing to replace
            path.write_text(text, encoding="utf-8")
            return
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            try:
                file.write(text)
                file.flush()
                Path(file.name).chmod(path.stat().st_mode if path.exists() else READABLE)
                Path(file.name).replace(path)
            except BaseException:
                with suppress(FileNotFoundError):
                    Path(file.name).unlink()
                raise
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(
            f"'{target}' cannot be written ({error.strerror})", option, "Give a file in a folder with room for it."
        ) from None
