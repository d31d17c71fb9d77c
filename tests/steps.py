"""Steps that no scheduler would make, from random numbers, for the predicates to judge.

Run as a script it needs the interpreter (``NUMBA_DISABLE_JIT=1``), where predicates can be called
from Python: it reads seeds and prints, for each, the facts and what the table's predicates say.
"""

from __future__ import annotations

import json
import random
import sys

from stallproof.claims import Kind
from stallproof.lifecycle import Event, Phase
from stallproof.limits import Limits
from stallproof.properties import PROPERTIES, facts
from stallproof.requests import NOBODY
from stallproof.tiers import HOST
from stallproof.witness import ABANDONED, Step, new_step


def random_step(seed: int) -> Step:
    """A step in which every number a predicate may read is small and random, sane more often than not."""
    rng = random.Random(seed)
    rows, gpu, host, page_tokens = rng.randint(1, 4), rng.randint(1, 8), rng.choice((0, 2, 3)), rng.randint(1, 2)
    limits = Limits(2, rng.choice((0, 0, 1)), rng.choice((1, 9, 9)))
    step = new_step(rows, gpu, host, page_tokens, limits, rng.random() < 0.3)
    for requests, tiers in ((step.before, step.tiers_before), (step.after, step.tiers)):
        tiers.fenced[:] = rng.choice((0, 0, 0, 1)), rng.choice((0, 0, 0, 1))
        tiers.free[:] -= tiers.fenced
        for r in range(rows):
            phase = rng.choice(list(Phase))
            holds = phase in (Phase.ACTIVE, Phase.SUSPENDED) or rng.random() < 0.1
            requests.phase[r] = phase
            requests.computed[r] = rng.randint(1, 3) if holds else 0
            pages = -(-int(requests.computed[r]) // page_tokens)
            requests.host_pages[r] = rng.randint(0, pages) if phase == Phase.SUSPENDED else 0
            requests.gpu_pages[r] = pages - requests.host_pages[r] + (rng.random() < 0.1)
            requests.decoding[r] = holds and rng.random() < 0.5
            requests.tokens[r] = requests.computed[r] + rng.randint(1, 2)
            requests.output_left[r] = rng.randint(0, 3)
            requests.priority[r] = rng.choice((0, 0, 1))
            requests.copying[r] = holds and rng.random() < 0.1
            tiers.free[:] -= requests.gpu_pages[r], requests.host_pages[r]
            if phase == Phase.SUSPENDED:
                tiers.held[:] += requests.gpu_pages[r], requests.host_pages[r]
    if rng.random() < 0.2:
        step.tiers_before.free[HOST] = step.tiers.free[HOST] = 0
        step.before.phase[0] = Phase.ACTIVE
    step.is_pass[0] = rng.randint(0, 1)
    step.settles[0] = rng.choice((NOBODY, NOBODY, NOBODY, ABANDONED, 0))
    step.plan.left[:] = rng.choice((0, 5, 5)), rng.choice((1, 5, 5))
    step.legal[0] = rng.random() < 0.8
    step.plan.operations[0] = rng.choice((0, 1, 1, 2, 3))
    for k in range(int(step.plan.operations[0])):
        step.plan.event[k] = rng.choice((*Event, Event.SUSPEND, Event.RECOMPUTE_PAUSE))
        step.plan.request[k] = rng.randrange(rows)
    for r in range(rows):
        step.plan.scheduled[r] = rng.choice((0, 0, 1, 2))
        step.plan.drafts_accepted[r] = rng.randint(0, limits.lookahead)
        step.plan.given_up[r] = rng.choice((0, 0, 0, 1))
    notes = step.give_ups
    notes.number[0] = rng.choice((0, 1, 1, 2))
    for k in range(int(notes.number[0])):
        notes.event[k] = rng.choice((Event.SUSPEND, Event.RECOMPUTE_PAUSE))
        notes.victim[k], notes.requester[k] = rng.randrange(rows), rng.randrange(rows)
        notes.phase[k] = rng.choice((Phase.ACTIVE, Phase.SUSPENDED))
        notes.active_passed_over[k] = rng.random() < 0.2
        notes.copying[k] = rng.random() < 0.2
        for column in (notes.missing, notes.available, notes.available_after, notes.reachable):
            column[k] = rng.randint(0, 3)
    return step


def of_predicates(step: Step) -> int:
    """The facts, from the table of properties alone: its order, its kinds, its predicates."""
    return sum(
        (bool(claim.predicate(step)) ^ (claim.kind is Kind.ALWAYS)) << bit for bit, claim in enumerate(PROPERTIES)
    )


def main() -> None:
    """Read seeds, print both."""
    steps = [random_step(seed) for seed in json.load(sys.stdin)]
    json.dump([[int(facts(step)), int(of_predicates(step))] for step in steps], sys.stdout)


if __name__ == "__main__":
    main()
