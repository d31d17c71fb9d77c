"""Hand-made and random situations before a pass, as JSON can carry them, and what passes make of them.

Run as a script, it reads ``[[policy, situation, passes], ...]`` from standard input and prints what
the passes decided. With ``NUMBA_DISABLE_JIT=1`` that is the interpreted twin of the compiled pass.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from stallproof.lifecycle import Event, Phase
from stallproof.limits import Limits
from stallproof.packing import Words, pack
from stallproof.plan import Plan, Rule, new_plan
from stallproof.policies import POLICIES
from stallproof.policies.interface import Rules
from stallproof.requests import Requests, new_requests
from stallproof.scheduling import compute, schedule
from stallproof.tiers import Tiers, new_tiers


class Row(NamedTuple):
    """One request, as it stands in the table."""

    phase: int = Phase.NEW
    decoding: int = 0
    tokens: int = 0
    output_left: int = 0
    computed: int = 0
    gpu: int = 0
    host: int = 0
    suspension: int = 0
    copying: int = 0
    priority: int = 0


class Situation(NamedTuple):
    """Everything a pass reads, but for its rules."""

    gpu: int
    host: int
    rows: Sequence[Row]
    page_tokens: int = 1
    chunk: int = 2


def waiting(tokens: int, left: int = 1) -> Row:
    """Arrived, with ``tokens`` of prompt."""
    return Row(Phase.WAITING, 0, tokens, left)


def replaying(tokens: int, left: int = 1) -> Row:
    """Recompute-paused."""
    return Row(Phase.RECOMPUTE_PAUSED, 0, tokens, left)


def prefill(pages: int, to_come: int, left: int = 1) -> Row:
    """An active prefill on full pages of one token, with ``to_come`` tokens to compute."""
    return Row(Phase.ACTIVE, 0, pages + to_come, left, pages, pages)


def decode(pages: int, left: int = 1) -> Row:
    """An active decode on full pages of one token."""
    return Row(Phase.ACTIVE, 1, pages + 1, left, pages, pages)


def suspended_decode(gpu: int, host: int, left: int = 1, suspension: int = 1) -> Row:
    """A suspended decode on full pages of one token."""
    return Row(Phase.SUSPENDED, 1, gpu + host + 1, left, gpu + host, gpu, host, suspension)


def suspended_prefill(gpu: int, host: int, to_come: int, left: int = 1, suspension: int = 1) -> Row:
    """A suspended prefill on full pages of one token."""
    return Row(Phase.SUSPENDED, 0, gpu + host + to_come, left, gpu + host, gpu, host, suspension)


def tables(situation: Situation) -> tuple[Requests, Tiers]:
    """The request table and the tiers of a situation."""
    requests = new_requests(len(situation.rows))
    tiers = new_tiers(situation.gpu, situation.host, situation.page_tokens)
    for r, row in enumerate(situation.rows):
        for column, value in zip(requests, row, strict=True):
            column[r] = value
        tiers.free[:] -= row.gpu, row.host
        if row.phase == Phase.SUSPENDED:
            tiers.held[:] += row.gpu, row.host
    return requests, tiers


def rows_of(requests: Requests) -> list[Row]:
    """The table, row by row."""
    return [Row(*(int(column[r]) for column in requests)) for r in range(len(requests.phase))]


def counts_of(tiers: Tiers) -> list[list[int]]:
    """Free and held pages."""
    return [tiers.free.tolist(), tiers.held.tolist()]


def copied(requests: Requests, tiers: Tiers) -> tuple[Requests, Tiers]:
    """A copy of both that shares nothing with them."""
    counts = {name: getattr(tiers, name).copy() for name in ("capacity", "free", "held", "fenced")}
    return Requests(*(column.copy() for column in requests)), tiers._replace(**counts)


def packed(requests: Requests, tiers: Tiers) -> Words:
    """The words that the table is packed into."""
    words = np.full(len(requests.phase) + int(tiers.copies_take_time), 99, np.uint64)
    pack(requests, tiers, words)
    return words


def seeded_situation(seed: int) -> Situation:
    """A random situation of its own for every seed."""
    return random_situation(random.Random(seed).randint, most_rows=6)


def random_situation(choose: Callable[[int, int], int], most_rows: int = 5) -> Situation:
    """A situation as passes leave them: pages match tokens, every peak fits. ``choose(a, b)`` picks from a to b."""
    page_tokens, gpu, host = choose(1, 2), choose(2, 8), choose(0, 4)
    free_gpu, free_host = gpu, host
    rows = []
    order: list[int] = []  # rows in the order of their suspensions
    for r in range(choose(1, most_rows)):
        phase = Phase(choose(Phase.WAITING, Phase.RECOMPUTE_PAUSED))
        on_gpu = on_host = 0
        if phase == Phase.ACTIVE and free_gpu > 0:
            on_gpu = choose(1, free_gpu)
        if phase == Phase.SUSPENDED and host > 0:
            on_gpu, on_host = choose(0, free_gpu), choose(0, free_host)
        pages = on_gpu + on_host
        longest = gpu * page_tokens
        computed = (pages - 1) * page_tokens + choose(1, page_tokens)
        if pages == 0 or computed >= longest:
            phase = Phase.RECOMPUTE_PAUSED if phase == Phase.RECOMPUTE_PAUSED else Phase.WAITING
            tokens = choose(1, min(4, longest))
            rows.append(Row(phase, 0, tokens, choose(1, min(3, longest - tokens + 1))))
            continue
        free_gpu, free_host = free_gpu - on_gpu, free_host - on_host
        decoding = choose(0, 1)
        tokens = computed + 1 if decoding else choose(computed + 1, min(computed + 4, longest))
        left = choose(1, min(3, longest - tokens + 1))
        rows.append(Row(phase, decoding, tokens, left, computed, on_gpu, on_host))
        if phase == Phase.SUSPENDED:
            order.insert(choose(0, len(order)), r)
    for place, r in enumerate(order):
        rows[r] = rows[r]._replace(suspension=place + 1)
    rows += [Row()] * choose(0, 1)
    return Situation(gpu, host, rows, page_tokens, choose(1, 3))


@st.composite
def drawn_situations(draw: st.DrawFn) -> Situation:
    """Random situations that shrink, most of them small."""
    return random_situation(lambda a, b: draw(st.integers(int(a), int(b))))


def situations() -> st.SearchStrategy[Situation]:
    """The same, and as many that are crowded more often than not."""
    return drawn_situations() | st.integers(0, 1 << 32).map(seeded_situation)


class Decided(NamedTuple):
    """One pass: what it did, in order, and what it left."""

    events: list[tuple[str, int, int, int]]  # event, request, amount, requester
    scheduled: list[int]
    given_up: list[int]
    fired: list[str]  # a name as often as it fired
    decided: list[Row]  # before the tokens are computed
    generated: int
    rows: list[Row]
    tiers: list[list[int]]


def decide(requests: Requests, tiers: Tiers, rules: Rules, chunk: int, plan: Plan | None = None) -> Decided:
    """One pass, then its tokens, carried out on both tables."""
    plan = plan or new_plan(len(requests.phase))
    schedule(requests, tiers, rules, Limits(chunk), plan)
    decided = rows_of(requests)
    generated = int(compute(requests, tiers, plan))
    columns = (plan.event, plan.request, plan.amount, plan.requester)
    operations = [tuple(int(column[k]) for column in columns) for k in range(int(plan.operations[0]))]
    return Decided(
        [(Event(event).label, r, amount, requester) for event, r, amount, requester in operations],
        plan.scheduled.tolist(),
        plan.given_up.tolist(),
        [Rule(i).name for i, times in enumerate(plan.fired.tolist()) for _ in range(times)],
        decided,
        generated,
        rows_of(requests),
        counts_of(tiers),
    )


def passes(policy: str, situation: Situation, number: int = 1) -> list[Decided]:
    """The passes after ``situation``, one after another."""
    requests, tiers = tables(situation)
    return [decide(requests, tiers, POLICIES[policy].rules, situation.chunk) for _ in range(number)]


def interpreted(script: Path, given: object) -> object:
    """What ``script`` prints, run interpreted, when it reads ``given`` from standard input."""
    done = subprocess.run(
        [sys.executable, str(script)],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def main() -> None:
    """Read the questions, print the answers."""
    answers = []
    for policy, situation, number in json.load(sys.stdin):
        gpu, host, rows, page_tokens, chunk = situation
        answers.append(passes(policy, Situation(gpu, host, [Row(*row) for row in rows], page_tokens, chunk), number))
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
