"""The pass and its environment as a transition system for the explorer.

A state is the request table between two passes, packed into one 64-bit word a request. Requests
stand in arrival order; one that finishes leaves and the rest close up, so arrivals never end.

The environment may, between two passes: let a request arrive, with any priority, stop any active decode
early, cancel any live request; it decides how many of each decode's drafts are right, and, where copies
take time, when they are done: a request's all together, those of requests that have gone all together.

Most policies never look at how much a request may still generate, and any decode may stop at any moment,
so a request with a short output behaves like one with a long output that stopped: with early stop on,
each prompt arrives with the longest output only that its bounds and the GPU allow. ``every_output``
lets every output length arrive; the verdicts are the same, the states more. For a policy that does look
(``reads_output_left``) every output length arrives in any case.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from stallproof.bounds import MOST, Bounds
from stallproof.claims import Claim
from stallproof.claims import Kind as ClaimKind
from stallproof.compiled import compiled_in_place
from stallproof.explorer import FIRST_MARK, SYSTEM_STEP, Successors
from stallproof.limits import limits_of
from stallproof.packing import Words, number_live, pack, unpack
from stallproof.plan import SELF, perform
from stallproof.policies.interface import Policy, Rules
from stallproof.properties import HAPPENS_WITHOUT_PRESSURE, NEEDS, NEEDS_COPIES, NEEDS_HOST_TIER, PROPERTIES, facts
from stallproof.requests import ACTIVE, NOBODY, Column, Requests
from stallproof.scheduling import compute, schedule
from stallproof.tiers import ARRIVE, CANCEL, FINISH, GPU, HOST, abandoned, peak_pages
from stallproof.witness import ABANDONED, Step, begin, new_step, replay, settle_copies, undo_if_failed


class Kind(IntEnum):
    """What kind of move a transition is."""

    PASS = 0
    ARRIVE = 1
    REFUSE = 2
    STOP = 3
    CANCEL = 4
    SETTLE = 5
    SETTLE_ABANDONED = 6


PASS, ARRIVAL, REFUSAL, STOP, CANCELLATION, SETTLE, SETTLE_ABANDONED = (int(kind) for kind in Kind)
OF_A_ROW = (Kind.STOP, Kind.CANCEL, Kind.SETTLE)


class Move(NamedTuple):
    """One move.

    ``request``: the row, for stop, cancel and settle. ``prompt``, ``output``: tokens, for arrive and refuse;
    ``priority``: for arrive. ``drafts``: for a pass, of each row how many drafts are right if it decodes,
    a number with a digit a row, the first row's last, to the base of the lookahead + 1.
    """

    kind: Kind
    request: int = 0
    prompt: int = 0
    output: int = 0
    priority: int = 0
    drafts: int = 0

    @property
    def label(self) -> int:
        """The move as the explorer keeps it."""
        if self.kind is Kind.PASS:
            return self.kind | self.drafts << 3
        first = self.request if self.kind in OF_A_ROW else self.prompt
        return _label(self.kind, first, self.output, self.priority)

    @classmethod
    def of_label(cls, label: int) -> Move:
        """The move that ``label`` stands for."""
        kind, first, second = Kind(label & 7), label >> 3 & MOST, label >> 11 & MOST
        if kind is Kind.PASS:
            return cls(kind, drafts=label >> 3)
        if kind in OF_A_ROW:
            return cls(kind, request=first)
        return cls(kind, prompt=first, output=second, priority=label >> 19)


@compiled_in_place
def _label(kind: int, first: int, second: int, priority: int) -> int:
    return kind | first << 3 | second << 11 | priority << 19


@compiled_in_place
def longest_output(prompt: int, bounds: Bounds) -> int:
    """The longest output within the bounds with which ``prompt`` can ever fit the GPU; 0 if there is none."""
    output = bounds.max_output
    while output > 0 and peak_within(bounds, prompt, output) > bounds.gpu_pages:
        output -= 1
    return output


@compiled_in_place
def peak_within(bounds: Bounds, prompt: int, output: int) -> int:
    """The most pages a request with such lengths will ever hold."""
    return peak_pages(prompt, output, bounds.page_tokens, bounds.lookahead, bounds.state_pages)


@compiled_in_place
def only_decodes_draft(requests: Requests, drafts: int, lookahead: int) -> bool:
    """No draft of a request that does not decode is right."""
    for r in range(len(requests.phase)):
        if drafts % (lookahead + 1) > 0 and not requests.decoding[r]:
            return False
        drafts //= lookahead + 1
    return True


@compiled_in_place
def can_stop(requests: Requests, r: int) -> bool:
    """An active decode whose pages are all there may have computed its last token."""
    return requests.phase[r] == ACTIVE and requests.decoding[r] == 1 and requests.copying[r] == 0


ILLEGAL_BIT = 1 << [claim.name for claim in PROPERTIES].index("legal-transition")


@compiled_in_place
def run_pass(step: Step, rules: Rules, drafts: int) -> int:
    """One pass from ``before``, its tokens computed; ``drafts`` as in :class:`Move`. Returns its facts.

    A pass that raises has asked for an illegal transition; it then counts as one that changed nothing.
    """
    begin(step, 1)
    for r in range(len(step.plan.drafts_accepted)):
        step.plan.drafts_accepted[r] = drafts % (step.limits.lookahead + 1)
        drafts //= step.limits.lookahead + 1
    try:
        schedule(step.after, step.tiers, rules, step.limits, step.plan)
        compute(step.after, step.tiers, step.plan)
    except Exception:  # Numba catches only this one
        begin(step, 1)
        return ILLEGAL_BIT
    undo_if_failed(step)
    replay(step)
    return facts(step)


@compiled_in_place
def run_arrival(step: Step, r: int, prompt: int, output: int, priority: int) -> int:
    """A request arrives in row ``r``, behind all others; :func:`pack` puts it in its place. Returns the facts."""
    begin(step, 0)
    perform(step.after, step.tiers, step.plan, ARRIVE, r, 0, SELF)
    step.after.tokens[r] = prompt
    step.after.output_left[r] = output
    step.after.priority[r] = priority
    replay(step)
    return facts(step)


@compiled_in_place
def run_end(step: Step, r: int, event: int) -> int:
    """Request ``r`` is stopped (event finish) or cancelled. Returns the facts."""
    begin(step, 0)
    perform(step.after, step.tiers, step.plan, event, r, 0, SELF)
    replay(step)
    return facts(step)


@compiled_in_place
def run_settle(step: Step, settles: int) -> int:
    """Copies are done: of a row, or with ABANDONED those of requests gone. Returns the facts."""
    begin(step, 0)
    step.settles[0] = settles
    settle_copies(step, step.after, step.tiers)
    replay(step)
    return facts(step)


@compiled_in_place
def in_flight(step: Step, settles: int) -> bool:
    """Copies of that row, or with ABANDONED of requests gone, are under way."""
    if settles == ABANDONED:
        pages = abandoned(step.before, step.tiers_before, GPU) + abandoned(step.before, step.tiers_before, HOST)
        return pages > 0
    return step.before.copying[settles] > 0


@compiled_in_place
def marks(step: Step) -> np.uint64:
    """A mark for the first row with copies, the second, and so on, and one for requests gone: done, or by this step.

    Counted, not by row, since rows move when requests come and go.
    """
    found = np.uint64(0)
    mark = FIRST_MARK + 1
    if not in_flight(step, ABANDONED) or step.settles[0] == ABANDONED:
        found |= np.uint64(1) << np.uint64(FIRST_MARK)
    for r in range(len(step.before.phase)):
        if in_flight(step, r):
            if step.settles[0] == r:
                found |= np.uint64(1) << np.uint64(mark)
            mark += 1
    while mark <= FIRST_MARK + len(step.before.phase):
        found |= np.uint64(1) << np.uint64(mark)
        mark += 1
    return found


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
    fairness = np.uint64(0)
    for i in range(len(rows)):
        unpack(rows[i], step.before, step.tiers_before)
        n = number_live(step.before)
        if bounds.copies:
            step.settles[0] = NOBODY
            fairness = marks(step)

        for drafts in range((bounds.lookahead + 1) ** n):
            if only_decodes_draft(step.before, drafts, bounds.lookahead):
                bits[k] = np.uint64(run_pass(step, rules, drafts)) | system | fairness
                pack(step.after, step.tiers, successor[k])
                source[k], label[k] = i, PASS | drafts << 3
                k += 1

        if n < bounds.live:
            for prompt in range(1, bounds.max_prompt + 1):
                longest = longest_output(prompt, bounds)
                if longest < bounds.max_output:
                    begin(step, 0)
                    bits[k] = np.uint64(facts(step)) | fairness
                    pack(step.after, step.tiers, successor[k])
                    source[k], label[k] = i, _label(REFUSAL, prompt, bounds.max_output, 0)
                    k += 1
                shortest = longest if bounds.early_stop and not bounds.every_output else 1
                for output in range(max(shortest, 1), longest + 1):
                    for priority in range(bounds.priorities):
                        bits[k] = np.uint64(run_arrival(step, n, prompt, output, priority)) | fairness
                        pack(step.after, step.tiers, successor[k])
                        source[k], label[k] = i, _label(ARRIVAL, prompt, output, priority)
                        k += 1

        for r in range(n):
            if bounds.early_stop and can_stop(step.before, r):
                bits[k] = np.uint64(run_end(step, r, FINISH)) | fairness
                pack(step.after, step.tiers, successor[k])
                source[k], label[k] = i, _label(STOP, r, 0, 0)
                k += 1
            if bounds.cancel:
                bits[k] = np.uint64(run_end(step, r, CANCEL)) | fairness
                pack(step.after, step.tiers, successor[k])
                source[k], label[k] = i, _label(CANCELLATION, r, 0, 0)
                k += 1
            if in_flight(step, r):
                bits[k] = np.uint64(run_settle(step, r)) | marks(step)
                pack(step.after, step.tiers, successor[k])
                source[k], label[k] = i, _label(SETTLE, r, 0, 0)
                k += 1
        if bounds.copies and in_flight(step, ABANDONED):
            bits[k] = np.uint64(run_settle(step, ABANDONED)) | marks(step)
            pack(step.after, step.tiers, successor[k])
            source[k], label[k] = i, SETTLE_ABANDONED
            k += 1
    return k


class LifecycleModel:
    """A policy within bounds, as the explorer wants it. See :class:`stallproof.explorer.Model`."""

    def __init__(self, policy: Policy, bounds: Bounds) -> None:
        self.policy = policy
        self.bounds = policy.told_apart(bounds.checked())
        self.words = bounds.live + int(bounds.copies)
        self.fairness = (SYSTEM_STEP, *(FIRST_MARK + r for r in range(bounds.live + 1) if bounds.copies))
        self.claims: tuple[Claim, ...] = PROPERTIES
        self.applicable = tuple(self._applies(claim) for claim in PROPERTIES)
        outputs = 1 if bounds.early_stop and not bounds.every_output else bounds.max_output
        passes = (bounds.lookahead + 1) ** bounds.live
        self.most_successors = passes + bounds.max_prompt * (1 + outputs * bounds.priorities) + 3 * bounds.live + 1

    def _applies(self, claim: Claim) -> bool:
        """A *sometimes* claim is judged only where it can happen: pressure needs more demand than GPU pages.

        Limits of a pass, and requests that hold many pages or none, as with recurrent state, may keep demand below
        that: there only their own claims are judged. When a page migrates the GPU is full, so the host never holds
        more than the demand beyond the GPU.
        """
        b = self.bounds
        if claim.name in NEEDS and not NEEDS[claim.name](b):
            return False
        if claim.kind is not ClaimKind.SOMETIMES or claim.name in HAPPENS_WITHOUT_PRESSURE:
            return True
        if b.pass_requests + b.pass_tokens + b.state_pages > 0:
            return False
        peak = min(b.gpu_pages, peak_within(b, b.max_prompt, b.max_output))
        beyond_gpu = b.live * peak - b.gpu_pages
        if claim.name in NEEDS_COPIES and not b.copies:
            return False
        if beyond_gpu <= 0 or (claim.name in NEEDS_HOST_TIER and (b.host_pages == 0 or b.max_output == 1)):
            return False
        return claim.name != "sometimes-host-full" or b.host_pages <= beyond_gpu

    def initial_rows(self) -> Words:
        """The one initial state: no request."""
        return np.zeros((1, self.words), np.uint64)

    def new_step(self) -> Step:
        """Room for one step within the bounds."""
        b = self.bounds
        return new_step(b.live, b.gpu_pages, b.host_pages, b.page_tokens, limits_of(b), b.copies, b.state_pages)

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
            return int(run_pass(step, self.policy.rules, move.drafts))
        if move.kind is Kind.ARRIVE:
            return int(run_arrival(step, number_live(step.before), move.prompt, move.output, move.priority))
        if move.kind is Kind.REFUSE:
            begin(step, 0)
            return int(facts(step))
        if move.kind in (Kind.SETTLE, Kind.SETTLE_ABANDONED):
            return int(run_settle(step, ABANDONED if move.kind is Kind.SETTLE_ABANDONED else move.request))
        return int(run_end(step, move.request, FINISH if move.kind is Kind.STOP else CANCEL))
