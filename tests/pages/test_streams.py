"""The CUDA twin of the transfers, with stand-ins for streams: the order of waits and copies. No CUDA is run here."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from stallproof.pages import PageManager
from stallproof.pages.pools import Pool
from stallproof.pages.transfers import StreamTransfers
from stallproof.tiers import ADMIT, GPU, HOST

from .plans import IDS, plan_of


class StandInStream:
    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    def wait_stream(self, other: StandInStream) -> None:
        self.log.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Everything that happens, in order."""
    log: list[str] = []
    compute = StandInStream(log, "compute")
    copy_page = torch.Tensor.copy_

    @contextmanager
    def on(stream):
        log.append(f"on {stream.name}")
        yield
        log.append(f"off {stream.name}")

    def logged_copy(target, source, non_blocking=False):
        log.append("copy" if non_blocking else "blocking copy")
        return copy_page(target, source)

    monkeypatch.setattr(torch.cuda, "Stream", lambda _device: StandInStream(log, "copies"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: compute)
    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(torch.Tensor, "copy_", logged_copy)
    return log


def test_copies_come_after_the_compute_stream_and_the_compute_stream_after_the_copies(log):
    gpu, host = (Pool(name, 3, 2, (), torch.int64, torch.device("cpu")) for name in ("GPU", "host"))
    gpu.storage += torch.arange(3)[:, None]
    transfers = StreamTransfers(gpu, host)
    transfers.move(GPU, np.array([0, 1]), np.array([2, 1]))
    transfers.move(HOST, np.array([1]), np.array([0]))
    assert log == ["copies waits for compute", "on copies", "copy", "copy", "off copies"]
    assert host.storage[:, 0].tolist() == [0, 1, 0]
    transfers.finish_batch()
    transfers.wait()
    assert log[5:] == ["copies waits for compute", "on copies", "copy", "off copies", "compute waits for copies"]
    assert gpu.storage[:, 0].tolist() == [1, 1, 2]


def test_whoever_asks_where_tokens_are_waits_for_the_copies(monkeypatch):
    manager = PageManager(3, 2, 1, device="cpu")
    manager.carry_out(plan_of((ADMIT, 0, 2)), IDS)
    waits: list[bool] = []
    monkeypatch.setattr(manager._transfers, "wait", lambda: waits.append(True))
    manager.block_table(IDS[:1], [2])
    manager.slots(IDS[:1], [0], [2])
    manager.read(IDS[0], 0, 2)
    assert len(waits) == 3


def test_without_torch_the_error_says_how_to_get_it():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from stallproof.errors import UsageError\n"
        "try:\n    import stallproof.pages\nexcept UsageError as error:\n    print(error)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "stallproof.pages: torch is not installed. Install it: pip install 'stallproof[pages]'.\n"
