"""Compilation: plain Python functions, compiled by Numba, and the same when interpreted.

``@compiled`` marks a function of the compiled core. With ``NUMBA_DISABLE_JIT=1`` it is the plain
Python function. Compiled code is cached on disk; Numba's own cache looks only at the file a
function stands in, so a change in a function it calls would go unseen. Ours is keyed on the source
of the whole package.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import caching
from numba.core.config import DISABLE_JIT

INTERPRETED = bool(DISABLE_JIT)

ROOT = Path(__file__).parent
"""The folder of the package."""

F = TypeVar("F", bound=Callable[..., Any])


@cache
def package_digest() -> str:
    """A digest of every source file of the package."""
    digest = hashlib.sha256()
    for path in sorted(ROOT.rglob("*.py")):
        digest.update(str(path.relative_to(ROOT)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


class _PackageCache(caching.FunctionCache):
    """Numba's on-disk cache, stale as soon as any file of the package changes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = caching.IndexDataCacheFile(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=(self._impl.locator.get_source_stamp(), package_digest()),
        )


def _compiled(function: F, **options: bool) -> F:
    if INTERPRETED:
        return function
    dispatcher = numba.njit(nogil=True, no_cfunc_wrapper=True, **options)(function)
    call_template = dispatcher.get_call_template

    def without_literals(arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
        # Numba would compile a function again for every constant it is called with.
        return call_template(tuple(numba.types.unliteral(argument) for argument in arguments), keywords)

    dispatcher.get_call_template = without_literals
    dispatcher._cache = _PackageCache(function)
    return dispatcher


def compiled(function: F) -> F:
    """Compile ``function`` at its first call, without the interpreter lock, and cache it on disk."""
    return _compiled(function, _nrt=True)  # said aloud: what Numba is not told it inherits from the caller


def compiled_in_place(function: F) -> F:
    """The same for a function that works on the arrays it is given and allocates none.

    Numba then counts no references, which makes code over many small arrays ten times faster.
    """
    return _compiled(function, _nrt=False)


def compiled_part(function: F) -> F:
    """In place, and only compiled code calls it: no entry from Python, half the compile time."""
    return _compiled(function, _nrt=False, no_cpython_wrapper=True)


def compiled_rule(function: F, allocates: bool = False) -> F:
    """In place, and called through its address.

    A rule of somebody else's file is not cached, since we do not know what it depends on, and an index out of
    range raises in it. ``allocates``: it makes lists or arrays, and so needs reference counts.
    """
    if INTERPRETED:
        return function
    ours = is_ours(function)
    dispatcher = numba.njit(nogil=True, boundscheck=not ours, _nrt=allocates)(function)
    if ours:
        dispatcher._cache = _PackageCache(function)
    return dispatcher


def is_ours(function: Callable[..., Any]) -> bool:
    """The function stands in a file of this package."""
    return Path(function.__code__.co_filename).is_relative_to(ROOT)


def interpreted_environment() -> dict[str, str]:
    """The environment of a Python process that runs this package with nothing compiled."""
    path = os.pathsep.join(filter(None, (str(ROOT.parent), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path}
