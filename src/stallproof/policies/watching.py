"""Rules of somebody's file, asked while everything runs interpreted: what they did wrong, and on which line.

Compiled code says only that a pass was illegal. Replayed interpreted, a rule that raises is named with its line,
and so is one whose victim is no candidate. Tables are read-only for it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stallproof.compiled import is_ours
from stallproof.errors import PolicyFileError
from stallproof.lifecycle import Phase
from stallproof.plan import Plan
from stallproof.policies.interface import Rules, function_of
from stallproof.policies.vetting import answers_question_with_a_row, place_of
from stallproof.requests import ACTIVE, NOBODY, SUSPENDED, Requests
from stallproof.tiers import Tiers


class RuleFailed(PolicyFileError):
    """A rule raised, or its answer is none."""


class Watcher:
    """Notes what rules do wrong. ``numbers``: arrival numbers by row, if they are known."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.numbers: Sequence[int] = ()

    def watched(self, rules: Rules) -> Rules:
        """``rules``, of which those of somebody's file are asked through this watcher."""
        return Rules(
            **{
                question: rule if is_ours(function_of(rule)) else _WatchedRule(self, question, function_of(rule))
                for question, rule in rules._asdict().items()
            }
        )

    def name(self, row: int) -> str:
        """What people call the request in a row."""
        return f"R{self.numbers[row]}" if row < len(self.numbers) else f"row {row}"


class _WatchedRule:
    def __init__(self, watcher: Watcher, question: str, function: Callable[..., Any]) -> None:
        self.watcher, self.question, self.function = watcher, question, function
        self.__name__ = function.__name__

    def __call__(self, requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> Any:
        tables = (requests, tiers, plan)
        if self.question != "own_pass":
            tables = (_read_only(requests), _read_only(tiers), _read_only(plan))
        try:
            answer = self.function(*tables, requester, tokens)
        except Exception as error:
            raise self._failed(f"it raised {type(error).__name__}: {error}", requester, tokens, error) from error
        if answers_question_with_a_row(self.question):
            self._require_row(requests, plan, requester, tokens, answer)
        elif not isinstance(answer, (bool, int, np.bool_, np.integer)):
            raise self._failed(f"it answered {answer!r}, neither yes nor no", requester, tokens)
        return answer

    def _require_row(self, requests: Requests, plan: Plan, requester: int, tokens: int, answer: Any) -> None:
        if isinstance(answer, (bool, np.bool_)) or not isinstance(answer, (int, np.integer)):
            raise self._failed(f"it answered {answer!r}, neither a row nor NOBODY", requester, tokens)
        if answer == NOBODY:
            return
        if not 0 <= answer < len(requests.phase):
            what = f"it answered {answer}, and the rows are 0 to {len(requests.phase) - 1}"
            raise self._failed(what, requester, tokens)
        if why := self._no_candidate(requests, plan, requester, int(answer)):
            victim = self.watcher.name(int(answer))
            what = f"it answered {victim}, no candidate: {why}"
            self.watcher.notes.append(str(self._failed(what, requester, tokens)))

    def _no_candidate(self, requests: Requests, plan: Plan, requester: int, v: int) -> str:
        """Why ``v`` may not be given up for ``requester``, in words; empty if it may."""
        phase = int(requests.phase[v])
        if v == requester:
            return "it is the requester itself"
        if v < requester:
            return f"it is not behind {self.watcher.name(requester)}"
        if phase not in (ACTIVE, SUSPENDED):
            return "no request is there" if phase == Phase.NEW else f"it is {Phase(phase).label}"
        if self.question == "victim_to_suspend" and phase == SUSPENDED:
            return "it is suspended already"
        if plan.scheduled[v] > 0:
            return "this pass has scheduled it"
        return "its pages are being copied" if requests.copying[v] > 0 else ""

    def _failed(self, what: str, requester: int, tokens: int, error: Exception | None = None) -> RuleFailed:
        """``error``: the one to take the line from."""
        file = self.function.__code__.co_filename
        frames = traceback.extract_tb(error.__traceback__) if error is not None else []
        line = next((frame.lineno for frame in reversed(frames) if frame.filename == file), None)
        asked = f"asked {self.question} for {self.watcher.name(requester)}, which wants to compute {tokens}"
        if self.question == "own_pass":
            asked = "asked to decide a pass"
        return RuleFailed(f"{asked}, {what}", place_of(self.function, line))


def _read_only(table: Any) -> Any:
    columns = []
    for column in table:
        if isinstance(column, np.ndarray):
            column = column.view()
            column.flags.writeable = False
        columns.append(column)
    return type(table)(*columns)


def watcher_of(rules: Rules) -> Watcher | None:
    """Who watches these rules."""
    return next((rule.watcher for rule in rules if isinstance(rule, _WatchedRule)), None)
