"""The two pools: what is refused, and what a token may be."""

from __future__ import annotations

import pytest
import torch

from stallproof.errors import PageError, UsageError
from stallproof.pages import PageManager
from stallproof.tiers import ADMIT, FINISH, MIGRATE, RESUME, SUSPEND

from .plans import IDS, plan_of

A, B = range(2)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 0, 1), "--gpu-pages: 0 gpu pages are no pool. Use 1 or more."),
        ((1, -1, 1), "--host-pages: -1 host pages are no pool. Use 0 or more."),
        ((1, 0, 0), "--page-tokens: a page cannot hold 0 tokens. Use 1 or more."),
    ],
)
def test_sizes_that_are_none_are_refused(sizes, message):
    with pytest.raises(UsageError) as error:
        PageManager(*sizes)
    assert str(error.value) == message


def test_an_unknown_device_is_refused():
    with pytest.raises(UsageError, match="there is no device 'tpu'"):
        PageManager(1, 1, 1, device="tpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_without_a_cuda_device_is_refused_and_auto_is_the_cpu():
    with pytest.raises(UsageError, match=r"this torch finds no CUDA device\. Use --device cpu"):
        PageManager(1, 1, 1, device="cuda")
    assert PageManager(1, 1, 1, device="auto").device == torch.device("cpu")


@pytest.mark.parametrize("pages_wanted", [2**50, 2**62])
def test_a_pool_that_cannot_be_allocated_is_a_usage_error_that_says_how_many_bytes(pages_wanted):
    """2**50 pages of 16 tokens of 8 bytes are 2**57 bytes, above any address space; 2**62 pages overflow."""
    with pytest.raises(UsageError) as error:
        PageManager(1, pages_wanted, 16, device="cpu")
    assert f"host pool: {pages_wanted * 16 * 8:,} bytes" in str(error.value)
    assert "Use fewer --host-pages, or free memory." in str(error.value)
    with pytest.raises(UsageError, match=r"GPU pool: .*\. Use fewer --gpu-pages"):
        PageManager(pages_wanted, 1, 16, device="cpu")


def test_tokens_may_be_of_any_shape_and_dtype():
    manager = PageManager(3, 2, 4, device="cpu", token_shape=(2, 3), dtype=torch.float16)
    manager.carry_out(plan_of((ADMIT, A, 2)), IDS)
    values = torch.randn(7, 2, 3).half()
    manager.write(IDS[A], 1, values)
    manager.carry_out(plan_of((SUSPEND, A), (MIGRATE, A, 1), (ADMIT, B, 2)), IDS)
    manager.carry_out(plan_of((FINISH, B), (RESUME, A, 1)), IDS)
    assert torch.equal(manager.read(IDS[A], 1, 8), values)
    assert manager.gpu.storage.shape == (3, 4, 2, 3)


def test_a_free_page_cannot_be_released():
    pool = PageManager(2, 0, 1).gpu
    taken = pool.take(1)
    pool.release(taken)
    with pytest.raises(PageError, match="GPU page 0 is released, but it is free already"):
        pool.release(taken)
    assert pool.free == 2
