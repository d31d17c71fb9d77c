"""What several verbs share: bounds and a policy from their options, and progress while something long runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from stallproof.bounds import MOST_SIZE, Bounds
from stallproof.errors import UsageError
from stallproof.report.consoles import progress_console

if TYPE_CHECKING:
    from stallproof.policies import Policy


def require_in_range(options: argparse.Namespace, *limits: tuple[str, int]) -> None:
    """Refuse an option below its least value, or absurdly large. Raises UsageError."""
    for option, least in limits:
        value = getattr(options, option[2:].replace("-", "_"))
        if value is not None and not least <= value <= MOST_SIZE:
            raise UsageError(f"{value} is out of range", option, f"Give a number from {least} to {MOST_SIZE}.")


def bounds_of(options: argparse.Namespace) -> Bounds:
    """The bounds that the options say. Raises UsageError."""
    return Bounds(
        live=options.live,
        gpu_pages=options.gpu_pages,
        host_pages=options.host_pages,
        page_tokens=options.page_tokens,
        chunk_tokens=options.chunk_tokens,
        max_prompt=options.max_prompt,
        max_output=options.max_output,
        cancel=not options.no_cancel,
        early_stop=not options.no_early_stop,
        every_output=options.every_output,
        lookahead=options.lookahead,
        state_pages=options.state_pages,
        priorities=options.priorities,
        pass_requests=options.pass_requests,
        pass_tokens=options.pass_tokens,
        copies=options.copies,
    ).checked()


def chosen_policy(name: str, unclaimed: list[str]) -> Policy:
    """The policy of this name, claiming less by ``unclaimed``. Raises UsageError and UnknownPolicy."""
    from stallproof.policies import policy_named
    from stallproof.properties import PROPERTIES

    policy = policy_named(name)
    known = [claim.name for claim in PROPERTIES]
    for claim in unclaimed:
        if claim not in known:
            raise UsageError(f"there is no property '{claim}'", "--unclaimed", f"Choose from: {', '.join(known)}.")
    return replace(policy, unclaimed=policy.unclaimed | frozenset(unclaimed))


@contextmanager
def progress_bar(what: str, total: int | None) -> Iterator[Callable[[int | None, str], None]]:
    """Progress on standard error, refreshed a few times a second; nothing if that is no terminal."""
    console = progress_console()
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *([BarColumn()] if total else []),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with progress:
        task = progress.add_task(what, total=total, detail="")

        def update(done: int | None, detail: str) -> None:
            progress.update(task, completed=done, detail=detail)

        yield update
