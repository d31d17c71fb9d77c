"""Two small models: any graph written as a table, and the processes that share tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stallproof.claims import Claim, Kind
from stallproof.compiled import compiled
from stallproof.explorer import SYSTEM_STEP, Successors


def claim(name: str, kind: Kind) -> Claim:
    """A claim whose truth the model itself writes into the facts."""
    return Claim(name, kind, name, lambda: None)


def bits(*positions: int) -> int:
    """The facts with these bits set."""
    return sum(1 << position for position in positions)


class TableModel:
    """States are node numbers; an edge is (source, target, facts), its label its position.

    The node number is spread over ``words`` words, so that no word alone tells two rows apart.
    """

    fairness: Sequence[int] = (SYSTEM_STEP,)

    def __init__(
        self,
        edges: Sequence[tuple[int, int, int]],
        claims: Sequence[Claim] = (),
        initial: Sequence[int] = (0,),
        words: int = 1,
        applicable: Sequence[bool] | None = None,
    ) -> None:
        self.words = words
        self.claims = tuple(claims)
        self.applicable = [True] * len(self.claims) if applicable is None else list(applicable)
        self.initial = initial
        self.edges = sorted(enumerate(edges), key=lambda numbered: numbered[1][0])

    def row(self, node: int) -> np.ndarray:
        last = self.words - 1
        return np.array([node >> 2 * word & (-1 if word == last else 3) for word in range(self.words)], np.uint64)

    def node(self, row: np.ndarray) -> int:
        return sum(int(value) << 2 * word for word, value in enumerate(row))

    def rows(self, nodes: Sequence[int]) -> np.ndarray:
        return np.array([self.row(node) for node in nodes], np.uint64).reshape(-1, self.words)

    def initial_rows(self) -> np.ndarray:
        return self.rows(self.initial)

    def successors(self, rows: np.ndarray) -> Successors:
        out = [
            (index, label, target, facts)
            for index, row in enumerate(rows)
            for label, (source, target, facts) in self.edges
            if source == self.node(row)
        ]
        source, label, target, facts = zip(*out, strict=True) if out else ((), (), (), ())
        return Successors(
            np.array(source, np.int32),
            np.array(label, np.int32),
            self.rows(target),
            np.array(facts, np.uint64),
            np.array([len(rows), len(out)]),
        )


STATES_OF_A_PROCESS = 5
IDLE, WAITING, HOLDING, WORKING, DONE = range(STATES_OF_A_PROCESS)
FIELD = np.uint64(7)
FREE_IS_NEGATIVE = np.uint64(1)
ALL_HELD = np.uint64(2)


@compiled
def expand_tokens(rows, processes, tokens, skipper, source, label, row, facts):
    """The successors of every row, and how many there are; ``skipper`` takes a token unasked."""
    made = 0
    for index in range(len(rows)):
        state = rows[index, 0]
        held = 0
        for process in range(processes):
            at = state >> np.uint64(3 * process) & FIELD
            if at in (HOLDING, WORKING):
                held += 1
        for process in range(processes):
            shift = np.uint64(3 * process)
            at = np.int64(state >> shift & FIELD)
            if at == WAITING and held >= tokens and process != skipper:
                continue
            after = (at + 1) % STATES_OF_A_PROCESS
            free = tokens - held - (at == WAITING) + (at == WORKING)
            source[made] = index
            label[made] = process
            for word in range(row.shape[1]):
                row[made, word] = rows[index, word]
            row[made, 0] = state & ~(FIELD << shift) | np.uint64(after) << shift
            facts[made] = (FREE_IS_NEGATIVE if free < 0 else np.uint64(0)) | (ALL_HELD if free == 0 else np.uint64(0))
            made += 1
    return made


class Tokens:
    """``processes`` go round idle, waiting, holding, working, done; holding and working take one of ``tokens``."""

    claims = (claim("free tokens are never negative", Kind.ALWAYS), claim("all tokens are held", Kind.SOMETIMES))
    applicable = (True, True)

    def __init__(self, processes: int, tokens: int, *, last_skips_the_guard: bool = False, words: int = 1) -> None:
        self.processes, self.tokens, self.words = processes, tokens, words
        self.skipper = processes - 1 if last_skips_the_guard else processes

    def initial_rows(self) -> np.ndarray:
        return np.zeros((1, self.words), np.uint64)

    def successors(self, rows: np.ndarray) -> Successors:
        room = len(rows) * self.processes
        source, label = np.empty(room, np.int32), np.empty(room, np.int32)
        row, facts = np.empty((room, self.words), np.uint64), np.empty(room, np.uint64)
        made = expand_tokens(rows, self.processes, self.tokens, self.skipper, source, label, row, facts)
        return Successors(source[:made], label[:made], row[:made], facts[:made], np.array([made]))
