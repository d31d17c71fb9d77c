"""The page manager: carries out a plan's operations on two pools of pages.

A plan names requests and counts. Which pages move is decided here, always in the same way:

* pages are taken in the order of :mod:`stallproof.pages.pools`, and appended to the request's block table;
* a request migrates from its first page on, so its first pages are on the host and the others on the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from stallproof.errors import PageError, UsageError
from stallproof.pages.pools import Int64s, Pages, Pool
from stallproof.pages.rehearsal import Operation, operations_of, refuse_impossible
from stallproof.pages.transfers import StreamTransfers, Transfers
from stallproof.plan import Plan
from stallproof.requests import Column
from stallproof.tiers import ADMIT, CANCEL, FINISH, GPU, GROW, HOST, MIGRATE, RECOMPUTE_PAUSE, RESUME

Integers = Sequence[int] | Column
"""One integer a request."""


@dataclass
class _Held:
    """The pages of one request: position p is host page ``pages[p]`` if p < ``on_host``, else that GPU page."""

    pages: Pages
    on_host: int = 0


class BlockTables(NamedTuple):
    """Where requests' tokens are, as FlashInfer takes it: int32 on the GPU pool's device.

    Request i has GPU pages ``indices[indptr[i]:indptr[i + 1]]`` in the order of its tokens, the last of
    them filled with ``last_page_len[i]`` tokens, 1 to page_tokens.
    """

    indices: torch.Tensor  # int32 (pages of all requests,)
    indptr: torch.Tensor  # int32 (requests + 1,)
    last_page_len: torch.Tensor  # int32 (requests,)


class PageManager:
    """Two tiers of pages and who has them.

    ``device``: ``cuda``, ``cpu``, or ``auto``, which is CUDA where there is one. ``token_shape`` and ``dtype``: what is
    kept of a token. Raises UsageError if a size is no size, if there is no such device, or if a pool
    cannot be allocated.

    ``pages_offloaded`` and ``pages_onboarded`` count the pages moved to the host and back. On CUDA, make every call,
    and launch what uses the pages, with the same current stream.
    """

    def __init__(
        self,
        gpu_pages: int,
        host_pages: int,
        page_tokens: int,
        *,
        device: str = "auto",
        token_shape: tuple[int, ...] = (),
        dtype: torch.dtype = torch.int64,
    ) -> None:
        for name, size, least in (("gpu", gpu_pages, 1), ("host", host_pages, 0)):
            if size < least:
                raise UsageError(f"{size} {name} pages are no pool", f"--{name}-pages", f"Use {least} or more.")
        if page_tokens < 1:
            raise UsageError(f"a page cannot hold {page_tokens} tokens", "--page-tokens", "Use 1 or more.")
        self.page_tokens = page_tokens
        self.device = _device(device)
        on_cuda = self.device.type == "cuda"
        self.gpu = Pool("GPU", gpu_pages, page_tokens, token_shape, dtype, self.device)
        self.host = Pool("host", host_pages, page_tokens, token_shape, dtype, torch.device("cpu"), pinned=on_cuda)
        self.pages_offloaded = 0
        self.pages_onboarded = 0
        self._held: dict[int, _Held] = {}
        self._transfers = StreamTransfers(self.gpu, self.host) if on_cuda else Transfers(self.gpu, self.host)
        self._verbs: dict[int, Callable[[Operation], None]] = {
            ADMIT: self._take,
            GROW: self._take,
            MIGRATE: self._migrate,
            RESUME: self._resume,
            RECOMPUTE_PAUSE: self._release,
            FINISH: self._release,
            CANCEL: self._release,
        }

    # A plan

    def carry_out(self, plan: Plan, ids: Integers, first: int = 0, last: int | None = None) -> None:
        """Carry out operations ``first`` to ``last - 1`` of ``plan`` (without ``last``, all the rest), in order.

        ``ids[row]`` is the stable id of the request in that row of the request table. All or nothing:
        raises PageError, naming operation, request, pages wanted and pages free, before anything is changed.
        """
        operations = operations_of(plan, ids, first, last)
        refuse_impossible(operations, self.pages_of, self.gpu.free, self.host.free)
        for operation in operations:
            self._verbs[operation.event](operation)
        self._transfers.finish_batch()

    def _take(self, operation: Operation) -> None:
        held = self._held.setdefault(operation.request, _Held(np.empty(0, np.int64)))
        held.pages = np.concatenate([held.pages, self.gpu.take(operation.amount)])

    def _migrate(self, operation: Operation) -> None:
        held = self._held[operation.request]
        moved = slice(held.on_host, held.on_host + operation.amount)
        sources, targets = held.pages[moved], self.host.take(operation.amount)
        self._transfers.move(GPU, sources, targets)
        self.gpu.release(sources)
        held.pages[moved] = targets
        held.on_host += operation.amount
        self.pages_offloaded += operation.amount

    def _resume(self, operation: Operation) -> None:
        held = self._held[operation.request]
        sources, targets = held.pages[: held.on_host], self.gpu.take(operation.amount)
        self._transfers.move(HOST, sources, targets)
        self.host.release(sources)
        held.pages[: held.on_host] = targets
        held.on_host = 0
        self.pages_onboarded += operation.amount

    def _release(self, operation: Operation) -> None:
        held = self._held.pop(operation.request, None)  # one that was still waiting has no pages
        if held is not None:
            self.gpu.release(held.pages[held.on_host :])
            self.host.release(held.pages[: held.on_host])

    # Where tokens are

    def pages_of(self, request: int) -> tuple[int, int]:
        """How many pages a request has on (GPU, host); none if it is unknown."""
        held = self._held.get(request)
        return (0, 0) if held is None else (len(held.pages) - held.on_host, held.on_host)

    def block_table(self, ids: Integers, tokens: Integers) -> BlockTables:
        """The block tables of requests whose first ``tokens[i]`` tokens, at least 1, are all on the GPU.

        Raises PageError, naming the request, if one has no token, has a page on the host, or lacks pages.
        """
        lengths = np.asarray(tokens, np.int64)
        if (lengths < 1).any():
            request = int(ids[int(np.argmax(lengths < 1))])
            raise PageError(f"request {request} has no token, so it has no last page and no block table")
        indices, indptr = self._gpu_pages(ids, lengths)
        last_page_len = (lengths - 1) % self.page_tokens + 1
        return BlockTables(*(self._to_device(array.astype(np.int32)) for array in (indices, indptr, last_page_len)))

    def slots(self, ids: Integers, first: Integers, last: Integers) -> torch.Tensor:
        """Slots (rows of ``gpu.tokens``) of tokens ``first[i]`` to ``last[i] - 1`` of each request, in that order.

        int64 (sum of last - first,) on the GPU pool's device. Raises PageError as :meth:`block_table` does.
        """
        starts, stops = np.asarray(first, np.int64), np.asarray(last, np.int64)
        if (starts < 0).any() or (stops < starts).any():
            raise PageError("tokens are asked for that end before they begin, or begin before 0")
        indices, indptr = self._gpu_pages(ids, stops)
        positions = ranges(starts, stops)
        pages = indices[np.repeat(indptr[:-1], stops - starts) + positions // self.page_tokens]
        return self._to_device(pages * self.page_tokens + positions % self.page_tokens)

    def _gpu_pages(self, ids: Integers, tokens: Int64s) -> tuple[Pages, Int64s]:
        """The GPU pages of each request's first ``tokens[i]`` tokens, one after the other, and where each begins."""
        wanted = (tokens + self.page_tokens - 1) // self.page_tokens
        parts: list[Pages] = [np.empty(0, np.int64)]
        for request, pages in zip(np.asarray(ids).tolist(), wanted.tolist(), strict=True):
            held = self._held.get(request)
            has = 0 if held is None else len(held.pages)
            if held is None or has < pages:
                raise PageError(f"request {request} is asked for its first {pages} pages, it has {has}")
            if held.on_host > 0:
                raise PageError(f"request {request} has {held.on_host} of its pages on the host: it must resume first")
            parts.append(held.pages[:pages])
        self._transfers.wait()
        return np.concatenate(parts), np.concatenate([[0], np.cumsum(wanted)])

    def _to_device(self, array: npt.NDArray[np.integer[Any]]) -> torch.Tensor:
        return torch.from_numpy(array).to(self.device)

    # What stands there

    def write_tokens(self, slots: torch.Tensor, values: torch.Tensor) -> None:
        """Write ``values`` (n, *token_shape) into ``slots`` (int64 (n,)), no slot twice."""
        self.gpu.tokens.index_copy_(0, slots, values)

    def read_tokens(self, slots: torch.Tensor) -> torch.Tensor:
        """A copy of what stands in ``slots`` (int64 (n,)): (n, *token_shape)."""
        return self.gpu.tokens.index_select(0, slots)

    def write(self, request: int, first: int, values: torch.Tensor) -> None:
        """Write ``values`` (n, *token_shape) as tokens from ``first`` on. Raises PageError as :meth:`slots`."""
        self.write_tokens(self.slots([request], [first], [first + len(values)]), values)

    def read(self, request: int, first: int, last: int) -> torch.Tensor:
        """A copy of tokens ``first`` to ``last - 1``: (n, *token_shape). Raises PageError as :meth:`slots`."""
        return self.read_tokens(self.slots([request], [first], [last]))

    # Accounts

    def check(self) -> None:
        """Every page of a pool is free or somebody's, once. Raises PageError naming a page that is not."""
        for tier, pool in ((GPU, self.gpu), (HOST, self.host)):
            parts = [pool.free_pages(), *(_pages_on(tier, held) for held in self._held.values())]
            places = np.bincount(np.concatenate(parts), minlength=pool.pages)
            if (places != 1).any():
                page = int(np.argmax(places != 1))
                raise PageError(f"{pool.name} page {page} must be in one place; it is {self._places(tier, pool, page)}")

    def _places(self, tier: int, pool: Pool, page: int) -> str:
        places = ["free"] * int((pool.free_pages() == page).sum())
        for request, held in self._held.items():
            places += [f"request {request}'s"] * int((_pages_on(tier, held) == page).sum())
        return " and ".join(places) or "neither free nor anybody's"


def ranges(starts: Int64s, stops: Int64s) -> Int64s:
    """``starts[i]`` to ``stops[i] - 1`` for each i, one after the other: int64 (sum of stops - starts,)."""
    amounts = stops - starts
    ends = np.cumsum(amounts)
    positions: Int64s = np.arange(amounts.sum()) + np.repeat(starts - (ends - amounts), amounts)
    return positions


def _pages_on(tier: int, held: _Held) -> Pages:
    return held.pages[held.on_host :] if tier == GPU else held.pages[: held.on_host]


def _device(name: str) -> torch.device:
    """The device called ``name``."""
    if name not in ("auto", "cpu", "cuda"):
        raise UsageError(f"there is no device '{name}'", "--device", "Choose one of: auto, cpu, cuda.")
    there_is_cuda = torch.cuda.is_available()
    if name == "cuda" and not there_is_cuda:
        raise UsageError("this torch finds no CUDA device", "--device", "Use --device cpu, or install torch for CUDA.")
    if name == "cpu" or not there_is_cuda:
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())
