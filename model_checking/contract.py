"""The contract of ``spec/RequestLifecycle.tla`` once more, for the explorer: what any scheduler must respect.

Written against the lifecycle's table, not translated: phases come from ``NEXT_PHASE``, the arithmetic is
numpy's. So equal numbers mean something. The convention: one transition for each request, event and
pair of numbers (prompt and output, or tokens) whose guard holds, self-loops and repeated states included.
Then TLC's "distinct states found" are the explorer's states, its "states generated" the transitions plus
the initial state, its depth the explorer's plus 1, for it counts states on a longest shortest path.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stallproof.claims import Claim, Kind
from stallproof.explorer import SYSTEM_STEP, Successors
from stallproof.lifecycle import Event, Phase
from stallproof.lookup import ILLEGAL, NEXT_PHASE

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FIELDS = ("phase", "tokens", "left", "computed", "gpu", "host")
"""Of a request, a byte each of its word, from the lowest. One word more holds the free pages of both tiers."""


class Constants(NamedTuple):
    """The constants of the TLA+ module. ``requests``: how many there are."""

    requests: int
    gpu_pages: int
    host_pages: int
    page_tokens: int
    chunk_tokens: int
    prompts: tuple[int, ...]
    outputs: tuple[int, ...]


class States(NamedTuple):
    """Many states: arrays of shape (states, requests), and (states,) for the free pages. Names as in TLA+."""

    phase: Ints
    tokens: Ints
    left: Ints
    computed: Ints
    gpu: Ints
    host: Ints
    free_gpu: Ints
    free_host: Ints

    def where(self, index: Any) -> States:
        """A copy of some of the states."""
        return States(*(array[index].copy() for array in self))


class Action(NamedTuple):
    """One instance of an action: the event, the request, and its one or two numbers."""

    event: Event
    request: int
    first: int = 0
    second: int = 0

    @property
    def label(self) -> int:
        """The action as the explorer keeps it."""
        return self.event | self.request << 4 | self.first << 8 | self.second << 16

    @classmethod
    def of_label(cls, label: int) -> Action:
        """The action that ``label`` stands for."""
        return cls(Event(label & 15), label >> 4 & 15, label >> 8 & 255, label >> 16)

    def __str__(self) -> str:
        return f"{self.event.label} {self.request}"


def pack(states: States) -> NDArray[np.uint64]:
    """The states as the explorer's rows."""
    words = sum(getattr(states, field) << 8 * byte for byte, field in enumerate(FIELDS))
    free = states.free_gpu | states.free_host << 8
    return np.column_stack([words, free]).astype(np.uint64)


def unpack(rows: NDArray[np.uint64]) -> States:
    """The inverse of :func:`pack`."""
    words = rows.astype(np.int64)
    requests, free = words[:, :-1], words[:, -1]
    return States(*(requests >> 8 * byte & 255 for byte in range(len(FIELDS))), free & 255, free >> 8)


def is_live(phase: Any) -> Any:
    """Has arrived and not finished."""
    return (phase >= Phase.WAITING) & (phase <= Phase.RECOMPUTE_PAUSED)


class ContractModel:
    """Every behaviour that the contract allows, as a model for the explorer."""

    fairness = (SYSTEM_STEP,)

    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self.words = constants.requests + 1
        self.claims = CLAIMS
        self.applicable = [
            not (claim.name in ("suspend-happens", "migrate-happens", "resume-happens") and constants.host_pages == 0)
            for claim in CLAIMS
        ]
        lengths = list(product(constants.prompts, constants.outputs))
        chunks = [(tokens, 0) for tokens in range(1, constants.chunk_tokens + 1)]
        numbers = {Event.ARRIVE: lengths, Event.REFUSE: lengths}
        numbers |= dict.fromkeys((Event.ADMIT, Event.GROW, Event.SCHEDULE), chunks)
        self.actions = [
            Action(event, r, first, second)
            for r in range(constants.requests)
            for event in Event
            for first, second in numbers.get(event, [(0, 0)])
        ]

    def pages(self, tokens: Any) -> Any:
        """Pages that tokens of one request fill, the last one perhaps in part."""
        return -(-tokens // self.constants.page_tokens)

    def feasible(self, prompt: Any, output: Any) -> Any:
        """The request fits the GPU alone; the last token it generates is never computed."""
        return self.pages(prompt + output - 1) <= self.constants.gpu_pages

    def initial_rows(self) -> NDArray[np.uint64]:
        """Nobody has arrived, every page is free."""
        nothing = [np.zeros((1, self.constants.requests), np.int64) for _ in FIELDS]
        free = [np.array([self.constants.gpu_pages]), np.array([self.constants.host_pages])]
        return pack(States(*nothing, *free))

    def next_phases(self, states: States, action: Action) -> Ints:
        """The phase the action's request would reach, or ILLEGAL. A finished request's place is as good as new."""
        phase = states.phase[:, action.request]
        return NEXT_PHASE[np.where(phase == Phase.FINISHED, Phase.NEW, phase), action.event]

    def pages_wanted(self, states: States, action: Action) -> Ints:
        """GPU pages that the action takes: for its first tokens, for its next ones, or for the return from the host."""
        r, event, tokens = action.request, action.event, action.first
        if event is Event.RESUME:
            return states.host[:, r]
        held = states.gpu[:, r]
        return self.pages(states.computed[:, r] + tokens) - held if event in (Event.ADMIT, Event.GROW) else 0 * held

    def enabled(self, states: States, action: Action) -> Bools:
        """The table has a row for the action, and its guard holds."""
        event, r, first, second = action
        possible = self.next_phases(states, action) != ILLEGAL
        wanted = self.pages_wanted(states, action)
        known = states.computed[:, r] + first <= states.tokens[:, r]
        unfinished = states.left[:, r] > 0
        guards = {
            Event.ARRIVE: lambda: self.feasible(first, second),
            Event.REFUSE: lambda: not self.feasible(first, second),
            Event.ADMIT: lambda: known & (wanted <= states.free_gpu),
            Event.GROW: lambda: known & unfinished & (wanted > 0) & (wanted <= states.free_gpu),
            Event.SCHEDULE: lambda: (
                known & unfinished & (self.pages(states.computed[:, r] + first) <= states.gpu[:, r])
            ),
            Event.SUSPEND: lambda: unfinished & (self.constants.host_pages > 0),
            Event.MIGRATE: lambda: (states.gpu[:, r] > 0) & (states.free_host > 0),
            Event.RESUME: lambda: wanted <= states.free_gpu,
            Event.RECOMPUTE_PAUSE: lambda: unfinished,
            Event.FINISH: lambda: ~unfinished,
            Event.CANCEL: lambda: True,
        }
        return possible & guards[event]()

    def apply(self, before: States, action: Action) -> States:
        """The states after the action, which is enabled in all of them."""
        event, r, first, second = action
        after = before.where(slice(None))
        after.phase[:, r] = self.next_phases(before, action)
        wanted = self.pages_wanted(before, action)
        after.gpu[:, r] += wanted
        after.free_gpu[:] -= wanted
        if event is Event.ARRIVE:
            after.tokens[:, r], after.left[:, r] = first, second
        elif event is Event.SCHEDULE:
            after.computed[:, r] += first
            yields = after.computed[:, r] == after.tokens[:, r]
            after.tokens[:, r] += yields
            after.left[:, r] -= yields
        elif event is Event.MIGRATE:
            after.gpu[:, r] -= 1
            after.free_gpu[:] += 1
            after.host[:, r] += 1
            after.free_host[:] -= 1
        elif event is Event.RESUME:
            after.free_host[:] += before.host[:, r]
            after.host[:, r] = 0
        elif event in (Event.RECOMPUTE_PAUSE, Event.FINISH, Event.CANCEL):
            after.free_gpu[:] += before.gpu[:, r]
            after.free_host[:] += before.host[:, r]
            after.gpu[:, r] = after.host[:, r] = after.computed[:, r] = 0
            if event is not Event.RECOMPUTE_PAUSE:
                after.tokens[:, r] = after.left[:, r] = 0
        return after

    def successors(self, rows: NDArray[np.uint64]) -> Successors:
        """Every enabled action of every state."""
        states = unpack(rows)
        source, label, reached, facts = [], [], [], []
        for action in self.actions:
            [index] = np.nonzero(self.enabled(states, action))
            before = states.where(index)
            after = self.apply(before, action)
            bits = np.zeros(len(index), np.uint64)
            for bit, claim in enumerate(self.claims):
                told = claim.predicate(self, action.event, before, after)
                wrong = ~told if claim.kind is Kind.ALWAYS else told
                bits |= wrong.astype(np.uint64) << np.uint64(bit)
            source.append(index)
            label.append(np.full(len(index), action.label))
            reached.append(pack(after))
            facts.append(bits)
        order = np.argsort(np.concatenate(source), kind="stable")
        return Successors(
            np.concatenate(source)[order].astype(np.int32),
            np.concatenate(label)[order].astype(np.int32),
            np.concatenate(reached)[order],
            np.concatenate(facts)[order],
            np.array([len(index) for index in source], np.int64),
        )


SAFETY: dict[str, Claim] = {}
"""By name in the TLA+ module. Its ``TypeInvariant`` is about values that a packed row cannot have."""


def always(predicate: Callable[[ContractModel, States, States], Bools]) -> None:
    """Enter a claim about (before, after): its name is the function's, its sentence the docstring."""
    words = predicate.__name__.split("_")
    claim = Claim("-".join(words), Kind.ALWAYS, predicate.__doc__ or "", lambda m, _, b, a: predicate(m, b, a))
    SAFETY["".join(word.title() for word in words)] = claim


@always
def pages_conserved(model: ContractModel, before: States, after: States) -> Bools:
    """Every page of each tier is free or one request's."""
    on_gpu = after.gpu.sum(axis=1) + after.free_gpu == model.constants.gpu_pages
    return on_gpu & (after.host.sum(axis=1) + after.free_host == model.constants.host_pages)


@always
def vacant_is_empty(model: ContractModel, before: States, after: States) -> Bools:
    """A finished request leaves nothing behind."""
    something = after.tokens + after.left + after.computed + after.gpu + after.host
    return (is_live(after.phase) | (something == 0)).all(axis=1)


@always
def waiting_holds_nothing(model: ContractModel, before: States, after: States) -> Bools:
    """Waiting and recompute-paused requests hold no page and have computed nothing."""
    without = np.isin(after.phase, (Phase.WAITING, Phase.RECOMPUTE_PAUSED))
    return (~without | (after.gpu + after.host + after.computed == 0)).all(axis=1)


@always
def active_on_gpu(model: ContractModel, before: States, after: States) -> Bools:
    """An active request has GPU pages only."""
    return ((after.phase != Phase.ACTIVE) | (after.host == 0)).all(axis=1)


@always
def pages_of_its_tokens(model: ContractModel, before: States, after: States) -> Bools:
    """Pages are those of the tokens computed, and of at most one chunk more."""
    held = after.gpu + after.host
    most = np.minimum(after.computed + model.constants.chunk_tokens, after.tokens)
    right = (model.pages(after.computed) <= held) & (held <= model.pages(most)) & (after.computed < after.tokens)
    return (~np.isin(after.phase, (Phase.ACTIVE, Phase.SUSPENDED)) | right).all(axis=1)


@always
def suspended_needs_lower_tier(model: ContractModel, before: States, after: States) -> Bools:
    """Nothing is suspended without a tier below the GPU."""
    return (after.phase != Phase.SUSPENDED).all(axis=1) | (model.constants.host_pages > 0)


@always
def live_is_feasible(model: ContractModel, before: States, after: States) -> Bools:
    """Every live request fits the GPU alone."""
    return (~is_live(after.phase) | model.feasible(after.tokens, after.left)).all(axis=1)


@always
def finished_work_is_kept(model: ContractModel, before: States, after: States) -> Bools:
    """A request that has generated its last token is not given up."""
    return (~is_live(after.phase) | (after.left > 0) | (after.phase == Phase.ACTIVE)).all(axis=1)


@always
def tokens_preserved(model: ContractModel, before: States, after: States) -> Bools:
    """No generated token of a live request is lost."""
    kept = (after.tokens >= before.tokens) & (after.tokens + after.left == before.tokens + before.left)
    return (~(is_live(before.phase) & is_live(after.phase)) | kept).all(axis=1)


@always
def replay_from_zero(model: ContractModel, before: States, after: States) -> Bools:
    """Computed tokens are lost all together, and their pages with them."""
    return ((after.computed >= before.computed) | (after.computed + after.gpu + after.host == 0)).all(axis=1)


@always
def held_pages_kept(model: ContractModel, before: States, after: States) -> Bools:
    """A suspended request's pages are moved, never dropped."""
    held = (before.phase == Phase.SUSPENDED) & np.isin(after.phase, (Phase.SUSPENDED, Phase.ACTIVE))
    return (~held | (after.gpu + after.host == before.gpu + before.host)).all(axis=1)


def happens(event: Event) -> Claim:
    """The claim that ``event`` is possible at all."""
    sentence = f"Event {event.label} can happen."
    return Claim(
        f"{event.label}-happens", Kind.SOMETIMES, sentence, lambda *seen: np.full(len(seen[3].gpu), seen[1] is event)
    )


CLAIMS = (*SAFETY.values(), *(happens(event) for event in Event))
