"""The pass and its environment as a transition system for the explorer.

A state is the request table between two passes, packed into one 64-bit word a request. Requests
stand in arrival order; one that finishes leaves and the rest close up, so arrivals never end.

The environment may, between two passes: let a request arrive, stop any active decode early, cancel
any live request. The pass never looks at how much a request may still generate, and any decode may
stop at any moment, so a request with a short output behaves like one with a long output that
stopped: with early stop on, each prompt arrives with the longest output only that its bounds and the
GPU allow. ``every_output`` lets every output length arrive; the verdicts are the same, the states more.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stallproof.bounds import MOST, Bounds
from stallproof.claims import Claim
from stallproof.claims import Kind as ClaimKind
from stallproof.compiled import compiled_in_place
from stallproof.explorer import SYSTEM_STEP, Successors
from stallproof.plan import SELF, perform
from stallproof.policies.interface import Policy, Rules
from stallproof.properties import NEEDS_HOST_TIER, PROPERTIES, facts
from stallproof.requests import (
    ACTIVE,
    NOT_SUSPENDED,
    SUSPENDED,
    Column,
    Requests,
    live,
)
from stallproof.scheduling import compute, schedule
from stallproof.tiers import ARRIVE, CANCEL, FINISH, GPU, HOST, Tiers, peak_pages
from stallproof.witness import Step, begin, new_step, replay

Words = npt.NDArray[np.uint64]


class Kind(IntEnum):
    """What kind of move a transition is."""

    PASS = 0
    ARRIVE = 1
    REFUSE = 2
    STOP = 3
    CANCEL = 4


PASS, ARRIVAL, REFUSAL, STOP, CANCELLATION = (int(kind) for kind in Kind)


class Move(NamedTuple):
    """One move. ``request``: the row, for stop and cancel; ``prompt``, ``output``: tokens, for arrive and refuse."""

    kind: Kind
    request: int = 0
    prompt: int = 0
    output: int = 0

    @property
    def label(self) -> int:
        """The move as the explorer keeps it."""
        return _label(self.kind, self.request if self.kind in (Kind.STOP, Kind.CANCEL) else self.prompt, self.output)

    @classmethod
    def of_label(cls, label: int) -> Move:
        """The move that ``label`` stands for."""
        kind, first, second = Kind(label & 7), label >> 3 & MOST, label >> 11
        if kind in (Kind.STOP, Kind.CANCEL):
            return cls(kind, request=first)
        return cls(kind, prompt=first, output=second)


@compiled_in_place
def _label(kind: int, first: int, second: int) -> int:
    return kind | first << 3 | second << 11


@compiled_in_place
def pack(requests: Requests, words: Words) -> None:
    """Write the live requests, closed up, into ``words`` (uint64 (rows,)); the rest become 0.

    Byte by byte from the lowest: phase and decoding, tokens, output_left, computed, gpu_pages,
    host_pages, and the place in the order of suspensions, which matters only while GPU pages are held.
    """
    w = 0
    for r in range(len(requests.phase)):
        if live(requests, r):
            place = NOT_SUSPENDED
            if requests.phase[r] == SUSPENDED and requests.gpu_pages[r] > 0:
                place = 1
                for other in range(len(requests.phase)):
                    if requests.phase[other] == SUSPENDED and requests.gpu_pages[other] > 0:
                        if requests.suspension[other] < requests.suspension[r]:
                            place += 1
            words[w] = np.uint64(
                requests.phase[r]
                | requests.decoding[r] << 3
                | (requests.tokens[r] & MOST) << 8
                | (requests.output_left[r] & MOST) << 16
                | (requests.computed[r] & MOST) << 24
                | (requests.gpu_pages[r] & MOST) << 32
                | (requests.host_pages[r] & MOST) << 40
                | place << 48
            )
            w += 1
    words[w:] = np.uint64(0)


@compiled_in_place
def unpack(words: Words, requests: Requests, tiers: Tiers) -> None:
    """The inverse of :func:`pack`; page counts of ``tiers`` follow from the requests."""
    tiers.free[GPU], tiers.free[HOST] = tiers.capacity[GPU], tiers.capacity[HOST]
    tiers.held[GPU], tiers.held[HOST] = 0, 0
    for r in range(len(requests.phase)):
        word = np.int64(words[r])
        requests.phase[r] = word & 7
        requests.decoding[r] = word >> 3 & 1
        requests.tokens[r] = word >> 8 & MOST
        requests.output_left[r] = word >> 16 & MOST
        requests.computed[r] = word >> 24 & MOST
        requests.gpu_pages[r] = word >> 32 & MOST
        requests.host_pages[r] = word >> 40 & MOST
        requests.suspension[r] = word >> 48
        tiers.free[GPU] -= requests.gpu_pages[r]
        tiers.free[HOST] -= requests.host_pages[r]
        if requests.phase[r] == SUSPENDED:
            tiers.held[GPU] += requests.gpu_pages[r]
            tiers.held[HOST] += requests.host_pages[r]


@compiled_in_place
def number_live(requests: Requests) -> int:
    """How many rows are live; they come first."""
    n = 0
    while n < len(requests.phase) and live(requests, n):
        n += 1
    return n


@compiled_in_place
def longest_output(prompt: int, bounds: Bounds) -> int:
    """The longest output within the bounds with which ``prompt`` can ever fit the GPU; 0 if there is none."""
    output = bounds.max_output
    while output > 0 and peak_pages(prompt, output, bounds.page_tokens) > bounds.gpu_pages:
        output -= 1
    return output


ILLEGAL_BIT = 1 << [claim.name for claim in PROPERTIES].index("legal-transition")


@compiled_in_place
def run_pass(step: Step, rules: Rules, chunk_tokens: int) -> int:
    """One pass from ``before``, its tokens computed. Returns its facts.

    A pass that raises has asked for an illegal transition; it then counts as one that changed nothing.
    """
    begin(step, 1)
    try:
        schedule(step.after, step.tiers, rules, chunk_tokens, step.plan)
        compute(step.after, step.tiers, step.plan)
    except Exception:  # Numba catches only this one
        begin(step, 1)
        return ILLEGAL_BIT
    replay(step, chunk_tokens)
    return facts(step)


@compiled_in_place
def run_arrival(step: Step, r: int, prompt: int, output: int) -> int:
    """A request arrives in row ``r``. Returns the facts."""
    begin(step, 0)
    perform(step.after, step.tiers, step.plan, ARRIVE, r, 0, SELF)
    step.after.tokens[r] = prompt
    step.after.output_left[r] = output
    replay(step, 1)
    return facts(step)


@compiled_in_place
def run_end(step: Step, r: int, event: int) -> int:
    """Request ``r`` is stopped (event finish) or cancelled. Returns the facts."""
    begin(step, 0)
    perform(step.after, step.tiers, step.plan, event, r, 0, SELF)
    replay(step, 1)
    return facts(step)


@compiled_in_place
def expand(
    rows: Words,
    bounds: Bounds,
    rules: Rules,
    step: Step,
    source: Column,
    label: Column,
    successor: Words,
    bits: Words,
) -> int:
    """All transitions out of ``rows`` (uint64 (n, live)), written to the last four arrays. Returns how many."""
    system = np.uint64(1) << np.uint64(SYSTEM_STEP)
    k = 0
    for i in range(len(rows)):
        unpack(rows[i], step.before, step.tiers_before)
        n = number_live(step.before)

        bits[k] = np.uint64(run_pass(step, rules, bounds.chunk_tokens)) | system
        pack(step.after, successor[k])
        source[k], label[k] = i, PASS
        k += 1

        if n < bounds.live:
            for prompt in range(1, bounds.max_prompt + 1):
                longest = longest_output(prompt, bounds)
                if longest < bounds.max_output:
                    begin(step, 0)
                    bits[k] = np.uint64(facts(step))
                    pack(step.after, successor[k])
                    source[k], label[k] = i, _label(REFUSAL, prompt, bounds.max_output)
                    k += 1
                shortest = longest if bounds.early_stop and not bounds.every_output else 1
                for output in range(max(shortest, 1), longest + 1):
                    bits[k] = np.uint64(run_arrival(step, n, prompt, output))
                    pack(step.after, successor[k])
                    source[k], label[k] = i, _label(ARRIVAL, prompt, output)
                    k += 1

        for r in range(n):
            if bounds.early_stop and step.before.phase[r] == ACTIVE and step.before.decoding[r]:
                bits[k] = np.uint64(run_end(step, r, FINISH))
                pack(step.after, successor[k])
                source[k], label[k] = i, _label(STOP, r, 0)
                k += 1
            if bounds.cancel:
                bits[k] = np.uint64(run_end(step, r, CANCEL))
                pack(step.after, successor[k])
                source[k], label[k] = i, _label(CANCELLATION, r, 0)
                k += 1
    return k


class LifecycleModel:
    """A policy within bounds, as the explorer wants it. See :class:`stallproof.explorer.Model`."""

    def __init__(self, policy: Policy, bounds: Bounds) -> None:
        self.policy, self.bounds = policy, bounds.checked()
        self.words = bounds.live
        self.claims: tuple[Claim, ...] = PROPERTIES
        self.applicable = tuple(self._applies(claim) for claim in PROPERTIES)
        outputs = 1 if bounds.early_stop and not bounds.every_output else bounds.max_output
        self.most_successors = 1 + bounds.max_prompt * (1 + outputs) + 2 * bounds.live

    def _applies(self, claim: Claim) -> bool:
        """A *sometimes* claim is judged only where it can happen: pressure needs more demand than GPU pages.

        When a page migrates the GPU is full, so the host never holds more than the demand beyond the GPU.
        """
        if claim.kind is not ClaimKind.SOMETIMES:
            return True
        b = self.bounds
        peak = min(b.gpu_pages, peak_pages(b.max_prompt, b.max_output, b.page_tokens))
        beyond_gpu = b.live * peak - b.gpu_pages
        if beyond_gpu <= 0 or (claim.name in NEEDS_HOST_TIER and b.host_pages == 0):
            return False
        return claim.name != "sometimes-host-full" or b.host_pages <= beyond_gpu

    def initial_rows(self) -> Words:
        """The one initial state: no request."""
        return np.zeros((1, self.words), np.uint64)

    def new_step(self) -> Step:
        """Room for one step within the bounds."""
        return new_step(self.bounds.live, self.bounds.gpu_pages, self.bounds.host_pages, self.bounds.page_tokens)

    def successors(self, rows: Words) -> Successors:
        """All transitions out of ``rows``."""
        most = len(rows) * self.most_successors
        source = np.empty(most, np.int32)
        label = np.empty(most, np.int32)
        successor = np.empty((most, self.words), np.uint64)
        bits = np.empty(most, np.uint64)
        step = self.new_step()
        n = expand(rows, self.bounds, self.policy.rules, step, source, label, successor, bits)
        return Successors(source[:n], label[:n], successor[:n], bits[:n], step.plan.fired)

    def run(self, step: Step, move: Move) -> int:
        """Carry out ``move`` from ``step.before``; afterwards ``step`` holds what happened. Returns the facts."""
        if move.kind is Kind.PASS:
            return int(run_pass(step, self.policy.rules, self.bounds.chunk_tokens))
        if move.kind is Kind.ARRIVE:
            return int(run_arrival(step, number_live(step.before), move.prompt, move.output))
        if move.kind is Kind.REFUSE:
            begin(step, 0)
            return int(facts(step))
        return int(run_end(step, move.request, FINISH if move.kind is Kind.STOP else CANCEL))
