"""A pool: the pages of one tier as one tensor, and which of them are free.

The free list is a stack. At the start the lowest page is taken first; from then on the page that was
released last, the hardest order for copies that are still under way, and always the same one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from stallproof.errors import PageError, UsageError

Int64s = npt.NDArray[np.int64]

Pages = Int64s
"""int64 (n,): physical pages of one tier."""


class Pool:
    """``pages`` pages of ``page_tokens`` tokens, each token a tensor of ``token_shape``.

    ``storage`` has shape (pages, page_tokens, *token_shape); ``tokens`` is the same memory as
    (pages * page_tokens, *token_shape), indexed by slot. It is all allocated, and written, here: memory that
    is not there is missed now and not in the middle of a run. Raises UsageError if it cannot be had.
    """

    def __init__(
        self,
        name: str,
        pages: int,
        page_tokens: int,
        token_shape: tuple[int, ...],
        dtype: torch.dtype,
        device: torch.device,
        *,
        pinned: bool = False,
    ) -> None:
        self.name = name
        try:
            shape = (pages, page_tokens, *token_shape)
            self.storage = torch.zeros(shape, dtype=dtype, device=device, pin_memory=pinned)
        except (RuntimeError, MemoryError, OverflowError) as error:
            bytes_wanted = pages * page_tokens * int(np.prod(token_shape, dtype=object)) * dtype.itemsize
            memory = "pinned memory" if pinned else f"memory of {device}"
            raise UsageError(
                f"{bytes_wanted:,} bytes of {memory} cannot be allocated ({pages:,} pages of {page_tokens:,} tokens)",
                f"{name} pool",
                f"Use fewer --{name.lower()}-pages, or free memory.",
            ) from error
        self.tokens = self.storage.view(pages * page_tokens, *token_shape)
        self._stack: Pages = np.arange(pages - 1, -1, -1, dtype=np.int64)  # the first `free` entries are free pages
        self._is_free: npt.NDArray[Any] = np.ones(pages, np.bool_)
        self.free = pages

    @property
    def pages(self) -> int:
        """How many pages the pool has."""
        return len(self._stack)

    def take(self, amount: int) -> Pages:
        """Take ``amount`` free pages off the free list. Raises PageError, taking none, if there are not so many."""
        if not 0 <= amount <= self.free:
            raise PageError(f"{amount} {self.name} pages wanted, {self.free} free; no page was moved")
        taken = self._stack[self.free - amount : self.free][::-1].copy()
        self._is_free[taken] = False
        self.free -= amount
        return taken

    def release(self, pages: Pages) -> None:
        """Put ``pages``, each named once, back on the free list.

        Raises PageError, releasing none, if one is free already.
        """
        if self._is_free[pages].any():
            page = int(pages[self._is_free[pages]][0])
            raise PageError(f"{self.name} page {page} is released, but it is free already; no page was released")
        self._is_free[pages] = True
        self._stack[self.free : self.free + len(pages)] = pages[::-1]
        self.free += len(pages)

    def free_pages(self) -> Pages:
        """A copy of the free list."""
        return self._stack[: self.free].copy()
