"""Each operation of a plan: what it does to pages, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from stallproof.errors import PageError
from stallproof.pages import PageManager
from stallproof.tiers import ADMIT, CANCEL, FINISH, GROW, MIGRATE, RECOMPUTE_PAUSE, RESUME, SCHEDULE, SUSPEND

from .plans import DEVICES, IDS, plan_of

A, B, C, D = range(4)
PAGE_TOKENS = 2


def manager_with(gpu: int, host: int, *operations: tuple[int, ...], device: str = "cpu") -> PageManager:
    manager = PageManager(gpu, host, PAGE_TOKENS, device=device)
    manager.carry_out(plan_of(*operations), IDS)
    return manager


def pages(manager: PageManager) -> list[tuple[int, int]]:
    """(GPU, host) pages of A, B, C, D."""
    return [manager.pages_of(request) for request in IDS]


def everything(manager: PageManager) -> tuple[Any, ...]:
    """All that a refused plan must leave alone."""
    return (
        pages(manager),
        manager.gpu.free_pages().tolist(),
        manager.host.free_pages().tolist(),
        manager.pages_offloaded,
        manager.pages_onboarded,
        manager.gpu.storage.tolist(),
        manager.host.storage.tolist(),
    )


def fill(manager: PageManager, request: int, value: int) -> None:
    """Every token of ``request`` becomes ``value``, ``value + 1``, ..."""
    tokens = manager.pages_of(request)[0] * PAGE_TOKENS
    manager.write(request, 0, torch.arange(value, value + tokens, device=manager.device))


def content(manager: PageManager, request: int) -> list[int]:
    tokens = manager.pages_of(request)[0] * PAGE_TOKENS
    return manager.read(request, 0, tokens).tolist()  # type: ignore[no-any-return]


# Each verb


def test_admit_and_grow_take_gpu_pages():
    manager = manager_with(5, 2, (ADMIT, A, 1), (ADMIT, B, 2), (GROW, A, 1))
    assert pages(manager) == [(2, 0), (2, 0), (0, 0), (0, 0)]
    assert (manager.gpu.free, manager.host.free) == (1, 2)
    manager.check()


def test_growing_keeps_what_is_there():
    manager = manager_with(5, 2, (ADMIT, A, 1))
    fill(manager, IDS[A], 10)
    manager.carry_out(plan_of((ADMIT, B, 1), (GROW, A, 2)), IDS)
    assert content(manager, IDS[A])[:2] == [10, 11]


@pytest.mark.parametrize("event", [SCHEDULE, SUSPEND])
def test_schedule_and_suspend_copy_nothing_and_free_nothing(event):
    manager = manager_with(3, 2, (ADMIT, A, 2))
    fill(manager, IDS[A], 10)
    before = everything(manager)
    manager.carry_out(plan_of((event, A, 2)), IDS)
    assert everything(manager) == before


def test_a_migration_splits_a_request_over_both_tiers_first_pages_first():
    manager = manager_with(3, 3, (ADMIT, A, 3), (SUSPEND, A), (MIGRATE, A, 1), (MIGRATE, A, 1))
    assert pages(manager)[A] == (1, 2)
    assert (manager.gpu.free, manager.host.free) == (2, 1)
    assert (manager.pages_offloaded, manager.pages_onboarded) == (2, 0)
    manager.check()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("moved", [0, 1, 2, 3])
def test_a_resumed_request_has_all_pages_on_the_gpu_with_their_contents(device, moved):
    manager = manager_with(3, 3, (ADMIT, A, 3), device=device)
    fill(manager, IDS[A], 10)
    migrations = [(MIGRATE, A, 1)] * moved
    manager.carry_out(plan_of((SUSPEND, A), *migrations), IDS)
    assert pages(manager)[A] == (3 - moved, moved)
    manager.carry_out(plan_of((RESUME, A, moved)), IDS)
    assert pages(manager)[A] == (3, 0)
    assert content(manager, IDS[A]) == [10, 11, 12, 13, 14, 15]
    assert (manager.gpu.free, manager.host.free) == (0, 3)
    assert (manager.pages_offloaded, manager.pages_onboarded) == (moved, moved)
    manager.check()


@pytest.mark.parametrize("event", [RECOMPUTE_PAUSE, FINISH, CANCEL])
def test_an_end_releases_every_page_of_every_tier(event):
    manager = manager_with(4, 3, (ADMIT, A, 3), (ADMIT, B, 1), (SUSPEND, A), (MIGRATE, A, 2))
    manager.carry_out(plan_of((event, A)), IDS)
    assert pages(manager) == [(0, 0), (1, 0), (0, 0), (0, 0)]
    assert (manager.gpu.free, manager.host.free) == (3, 3)
    manager.check()


@pytest.mark.parametrize("event", [RECOMPUTE_PAUSE, FINISH, CANCEL])
def test_releasing_twice_releases_once(event):
    manager = manager_with(4, 3, (ADMIT, A, 3), (ADMIT, B, 1), (SUSPEND, A), (MIGRATE, A, 2))
    manager.carry_out(plan_of((event, A), (event, A), (CANCEL, A)), IDS)
    assert (manager.gpu.free, manager.host.free) == (3, 3)
    manager.check()


def test_a_request_that_waits_can_be_cancelled():
    manager = manager_with(1, 0, (CANCEL, D))
    assert manager.gpu.free == 1


def test_a_recompute_paused_request_is_admitted_from_an_empty_table():
    manager = manager_with(3, 0, (ADMIT, A, 3), (RECOMPUTE_PAUSE, A), (ADMIT, A, 1))
    assert pages(manager)[A] == (1, 0)


# Ranges


def test_operations_after_the_pass_are_carried_out_separately():
    plan = plan_of((ADMIT, A, 1), (SCHEDULE, A, 1), (FINISH, A))
    manager = PageManager(1, 0, 1)
    manager.carry_out(plan, IDS, 0, 2)
    assert pages(manager)[A] == (1, 0)
    manager.carry_out(plan, IDS, 2)
    assert pages(manager)[A] == (0, 0)


@pytest.mark.parametrize(("first", "last"), [(-1, 1), (2, 1), (0, 3)])
def test_a_range_the_plan_does_not_have_is_refused(first, last):
    with pytest.raises(PageError, match="of a plan that has 2"):
        PageManager(4, 0, 1).carry_out(plan_of((ADMIT, A, 1), (ADMIT, B, 1)), IDS, first, last)


# Pages that are used again in the same plan


@pytest.mark.parametrize("device", DEVICES)
def test_a_page_freed_by_a_migration_and_taken_by_a_resume_keeps_both_contents(device):
    """GPU of 2: A's pages leave, B's come back into the same ones, and the other way round."""
    manager = manager_with(2, 4, (ADMIT, B, 2), device=device)
    fill(manager, IDS[B], 20)
    manager.carry_out(plan_of((SUSPEND, B), (MIGRATE, B, 2), (ADMIT, A, 2)), IDS)
    fill(manager, IDS[A], 10)
    for _ in range(3):
        manager.carry_out(plan_of((SUSPEND, A), (MIGRATE, A, 2), (RESUME, B, 2)), IDS)
        assert content(manager, IDS[B]) == [20, 21, 22, 23]
        manager.carry_out(plan_of((SUSPEND, B), (MIGRATE, B, 2), (RESUME, A, 2)), IDS)
        assert content(manager, IDS[A]) == [10, 11, 12, 13]
    manager.check()


@pytest.mark.parametrize("device", DEVICES)
def test_a_host_page_freed_by_a_resume_and_taken_by_a_migration_keeps_both_contents(device):
    """Host of 1: A comes back, and B goes where A was, in one plan."""
    manager = manager_with(3, 1, (ADMIT, A, 1), (ADMIT, B, 1), device=device)
    fill(manager, IDS[A], 10)
    fill(manager, IDS[B], 20)
    manager.carry_out(plan_of((SUSPEND, A), (MIGRATE, A, 1)), IDS)
    manager.carry_out(plan_of((RESUME, A, 1), (SUSPEND, B), (MIGRATE, B, 1)), IDS)
    assert content(manager, IDS[A]) == [10, 11]
    manager.carry_out(plan_of((RESUME, B, 1)), IDS)
    assert content(manager, IDS[B]) == [20, 21]


@pytest.mark.parametrize("device", DEVICES)
def test_a_host_page_given_away_twice_in_a_plan_holds_the_last_content(device):
    """Host of 2: A migrates, is recompute-paused, and B migrates into the same pages."""
    manager = manager_with(6, 2, (ADMIT, A, 2), (ADMIT, B, 2), device=device)
    fill(manager, IDS[A], 10)
    fill(manager, IDS[B], 20)
    manager.carry_out(plan_of((SUSPEND, A), (MIGRATE, A, 2), (RECOMPUTE_PAUSE, A), (SUSPEND, B), (MIGRATE, B, 2)), IDS)
    manager.carry_out(plan_of((RESUME, B, 2)), IDS)
    assert content(manager, IDS[B]) == [20, 21, 22, 23]


@pytest.mark.parametrize("device", DEVICES)
def test_a_page_that_goes_down_up_and_down_again_in_one_plan_keeps_its_content(device):
    manager = manager_with(2, 2, (ADMIT, A, 2), device=device)
    fill(manager, IDS[A], 10)
    manager.carry_out(plan_of((SUSPEND, A), (MIGRATE, A, 2), (RESUME, A, 2), (SUSPEND, A), (MIGRATE, A, 1)), IDS)
    manager.carry_out(plan_of((RESUME, A, 1)), IDS)
    assert content(manager, IDS[A]) == [10, 11, 12, 13]


def test_the_same_plans_choose_the_same_pages():
    operations = [(ADMIT, A, 2), (ADMIT, B, 2), (SUSPEND, B), (MIGRATE, B, 1), (GROW, A, 1), (CANCEL, B), (ADMIT, C, 1)]
    one, other = manager_with(5, 2, *operations), manager_with(5, 2, *operations)
    for a, b in zip(one.block_table(IDS[:1], [6]), other.block_table(IDS[:1], [6]), strict=True):
        assert a.tolist() == b.tolist()
    assert one.gpu.free_pages().tolist() == other.gpu.free_pages().tolist()


# All or nothing

START = ((ADMIT, A, 2), (ADMIT, B, 2), (SUSPEND, B), (MIGRATE, B, 1))
"""GPU of 4: A has 2, B has 1 and 1 more on the host of 2; 1 free on each."""

IMPOSSIBLE = [
    ((ADMIT, C, 2), "admit of request 42: 2 pages wanted, but the GPU has not so many free .free: 1 GPU, 1 host."),
    ((GROW, A, 2), "grow of request 40: 2 pages wanted, but the GPU has not so many free .free: 1 GPU, 1 host."),
    ((ADMIT, A, 1), "admit of request 40: 1 pages wanted, but it has 2 GPU and 0 host pages already"),
    ((ADMIT, B, 1), "admit of request 41: 1 pages wanted, but it has 1 GPU and 1 host pages already"),
    ((GROW, B, 1), "grow of request 41: 1 pages wanted, but 1 of its pages are on the host"),
    ((GROW, C, 1), "grow of request 42: 1 pages wanted, but it has no page"),
    ((MIGRATE, B, 2), "migrate of request 41: 2 pages wanted, but it has 1 on the GPU"),
    ((MIGRATE, A, 2), "migrate of request 40: 2 pages wanted, but the host has not so many free"),
    ((MIGRATE, C, 0), "migrate of request 42: 0 pages wanted, but that is no amount"),
    ((RESUME, B, 0), "resume of request 41: 0 pages wanted, but it has 1 on the host, and all must return"),
    ((RESUME, B, 2), "resume of request 41: 2 pages wanted, but it has 1 on the host, and all must return"),
    ((RESUME, C, 0), "resume of request 42: 0 pages wanted, but it has no page"),
    ((ADMIT, C, -1), "admit of request 42: -1 pages wanted, but that is no amount"),
]


@pytest.mark.parametrize(("operation", "message"), IMPOSSIBLE)
@pytest.mark.parametrize("possible_before", [0, 3])
def test_what_cannot_be_carried_out_is_refused_with_nothing_changed(operation, message, possible_before):
    """Operations before it leave the counts as they are; none of them is carried out either."""
    manager = manager_with(4, 2, *START)
    fill(manager, IDS[A], 10)
    before = everything(manager)
    harmless = [(ADMIT, D, 1), (FINISH, D), (SCHEDULE, A, 1)][:possible_before]
    with pytest.raises(PageError, match=f"operation {possible_before}, {message}.*no page was moved"):
        manager.carry_out(plan_of(*harmless, operation, (CANCEL, A)), IDS)
    assert everything(manager) == before


def test_pages_that_a_plan_frees_first_count_for_what_follows():
    manager = manager_with(4, 2, *START)
    manager.carry_out(plan_of((MIGRATE, B, 1), (ADMIT, C, 2), (RECOMPUTE_PAUSE, A), (RESUME, B, 2)), IDS)
    assert pages(manager) == [(0, 0), (2, 0), (2, 0), (0, 0)]
    manager.check()


# The accounts


def test_check_names_a_page_in_two_places_and_a_page_in_none():
    manager = manager_with(3, 1, (ADMIT, A, 1), (ADMIT, B, 1), (SUSPEND, B), (MIGRATE, B, 1))
    manager.check()
    manager._held[IDS[C]] = manager._held[IDS[A]]
    with pytest.raises(PageError, match="GPU page 0 must be in one place; it is request 40's and request 42's"):
        manager.check()
    del manager._held[IDS[C]], manager._held[IDS[A]]
    with pytest.raises(PageError, match="GPU page 0 must be in one place; it is neither free nor anybody's"):
        manager.check()
    manager.gpu.release(torch.tensor([0]).numpy())
    manager.check()
    manager.host.release(torch.tensor([0]).numpy())
    with pytest.raises(PageError, match="host page 0 must be in one place; it is free and request 41's"):
        manager.check()
