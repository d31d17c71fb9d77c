"""Copies of pages between the two pools, gathered into batches that go the same way.

Within a batch all sources are in one pool and all targets in the other, so no copy of a batch can
overwrite what another one reads. A plan may free a page and take it again at once. Then either

* it is a target twice, because the request that was to get it has been given up: only the last copy counts; or
* it is a source first and a target later, or the other way round: these copies go opposite ways, and a
  change of direction ends the batch.
"""

from __future__ import annotations

import torch

from stallproof.pages.pools import Pages, Pool
from stallproof.tiers import GPU


class Transfers:
    """Copies on the CPU: done when :meth:`finish_batch` returns. :class:`StreamTransfers` is its CUDA twin."""

    def __init__(self, gpu: Pool, host: Pool) -> None:
        self._gpu, self._host = gpu, host
        self._source_tier = GPU
        self._source_of: dict[int, int] = {}

    def move(self, source_tier: int, sources: Pages, targets: Pages) -> None:
        """Copy page ``sources[i]`` of ``source_tier`` to page ``targets[i]`` of the other tier, in this batch."""
        if source_tier != self._source_tier:
            self.finish_batch()
            self._source_tier = source_tier
        self._source_of.update(zip(targets.tolist(), sources.tolist(), strict=True))

    def finish_batch(self) -> None:
        """Issue the copies gathered so far."""
        if not self._source_of:
            return
        sources, targets = list(self._source_of.values()), list(self._source_of)
        self._source_of.clear()
        if self._source_tier == GPU:
            self._copy(self._gpu.storage, sources, self._host.storage, targets)
        else:
            self._copy(self._host.storage, sources, self._gpu.storage, targets)

    def wait(self) -> None:
        """What the caller does next with GPU pages comes after all copies issued."""

    def _copy(self, source: torch.Tensor, sources: list[int], target: torch.Tensor, targets: list[int]) -> None:
        target.index_copy_(0, torch.tensor(targets), source.index_select(0, torch.tensor(sources)))


class StreamTransfers(Transfers):
    """Copies between a CUDA pool and a pinned host pool, on a stream of their own.

    The stream does one batch after the other. A batch waits for what the caller's current stream was given
    before: it has written the sources and is done with the targets. Later work of the caller waits for
    the copies in :meth:`wait`. The host never waits, and only copies touch the host pool, so a page is free in the
    accounts as soon as its copy is issued. A copy is one asynchronous memcpy a page: scattering into
    the host pool by index would need the host to wait.

    Not run where this was written: there was no CUDA device. Its order of waits is tested with stand-in streams.
    """

    def __init__(self, gpu: Pool, host: Pool) -> None:
        super().__init__(gpu, host)
        self._device = gpu.storage.device
        self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call] # torch gives it no types

    def wait(self) -> None:
        """What the current stream gets next starts after all copies issued."""
        torch.cuda.current_stream(self._device).wait_stream(self._stream)

    def _copy(self, source: torch.Tensor, sources: list[int], target: torch.Tensor, targets: list[int]) -> None:
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            for s, t in zip(sources, targets, strict=True):
                target[t].copy_(source[s], non_blocking=True)
