"""The shipped code with a few of its functions replaced: for defects that no policy can have.

Works interpreted only (``NUMBA_DISABLE_JIT=1``): there a function is found by its name when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from stallproof.compiled import INTERPRETED

Replaced = Mapping[str, Callable[..., Any]]
"""By the name under which a module of the package calls it, ``module.function``."""


@contextmanager
def in_place(replaced: Replaced) -> Iterator[None]:
    """The functions are replaced as long as this lasts."""
    if replaced and not INTERPRETED:
        raise RuntimeError("compiled code has no names to replace: set NUMBA_DISABLE_JIT=1")
    with ExitStack() as stack:
        for name, function in replaced.items():
            stack.enter_context(mock.patch(f"stallproof.{name}", function))
        yield
