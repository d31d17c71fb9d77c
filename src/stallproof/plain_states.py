"""States as plain Python values, for checks that share nothing with the explorer: laid out, read back, counted."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from stallproof.bounds import Bounds
from stallproof.lifecycle import Phase
from stallproof.requests import clear_row
from stallproof.tiers import GPU, HOST
from stallproof.witness import ABANDONED, Step

LIVE = (Phase.WAITING, Phase.ACTIVE, Phase.SUSPENDED, Phase.RECOMPUTE_PAUSED)


@dataclass(frozen=True)
class Row:
    """One live request, as plain numbers. ``place`` is its age among suspensions that hold GPU pages, or 0."""

    number: int
    phase: Phase
    decoding: bool
    tokens: int
    output_left: int
    computed: int
    gpu_pages: int
    host_pages: int
    priority: int = 0
    copying: int = 0
    place: int = 0

    def recorded(self) -> dict[str, Any]:
        """As a trace file records it."""
        values = asdict(self) | {"phase": self.phase.label}
        del values["place"]
        return values

    def same_as(self, other: Row) -> bool:
        """Equal but for the number: two requests in the same state are the same to any scheduler."""
        return self == replace(other, number=self.number)


class Table(NamedTuple):
    """A state: the live requests, and the GPU and host pages that copies of requests that have gone still fence."""

    rows: tuple[Row, ...] = ()
    abandoned: tuple[int, int] = (0, 0)

    def in_flight(self) -> set[int]:
        """The numbers of the requests with copies in flight, ABANDONED for those of requests that have gone."""
        gone = {ABANDONED} if self.abandoned != (0, 0) else set()
        return gone | {row.number for row in self.rows if row.copying}


def lay_out(step: Step, table: Table, bounds: Bounds) -> None:
    """Write the rows and the page counts that follow from them into ``step.before``."""
    for r in range(bounds.live):
        clear_row(step.before, r, Phase.NEW)
    free = [bounds.gpu_pages, bounds.host_pages]
    held = [0, 0]
    fenced = list(table.abandoned)
    for r, row in enumerate(table.rows):
        values = (row.phase, row.decoding, row.tokens, row.output_left, row.computed, row.gpu_pages, row.host_pages)
        for column, value in zip(step.before, (*values, row.place, row.copying, row.priority), strict=True):
            column[r] = value
        fenced[GPU if row.phase is Phase.SUSPENDED else HOST] += row.copying
        for tier, pages in ((GPU, row.gpu_pages), (HOST, row.host_pages)):
            free[tier] -= pages
            held[tier] += pages if row.phase is Phase.SUSPENDED else 0
    free = [pages - gone for pages, gone in zip(free, fenced, strict=True)]
    step.tiers_before.free[:], step.tiers_before.held[:], step.tiers_before.fenced[:] = free, held, fenced


def read_back(step: Step, before: tuple[Row, ...], arrived: int) -> Table:
    """The live rows of ``step.after``, closed up, in order of priority, ages of suspensions counted anew."""
    numbers = [row.number for row in before] + [arrived]
    live = [r for r in range(len(step.after.phase)) if Phase(int(step.after.phase[r])) in LIVE]
    live.sort(key=lambda r: int(step.after.priority[r]))
    ages = sorted(
        (int(step.after.suspension[r]), r)
        for r in live
        if Phase(int(step.after.phase[r])) is Phase.SUSPENDED and step.after.gpu_pages[r] > 0
    )
    place = {r: age for age, (_, r) in enumerate(ages, 1)}
    rows = tuple(
        Row(
            number=numbers[r],
            phase=Phase(int(step.after.phase[r])),
            decoding=bool(step.after.decoding[r]),
            tokens=int(step.after.tokens[r]),
            output_left=int(step.after.output_left[r]),
            computed=int(step.after.computed[r]),
            gpu_pages=int(step.after.gpu_pages[r]),
            host_pages=int(step.after.host_pages[r]),
            priority=int(step.after.priority[r]),
            copying=int(step.after.copying[r]),
            place=place.get(r, 0),
        )
        for r in live
    )
    fenced = step.tiers.fenced.tolist()
    for row in rows:
        fenced[GPU if row.phase is Phase.SUSPENDED else HOST] -= row.copying
    return Table(rows, (fenced[GPU], fenced[HOST]))


def misplaced_pages(table: Table, bounds: Bounds) -> str:
    """What is wrong with the pages: not conserved, or not where the phase allows; by arithmetic of its own. Or ''."""
    rows = table.rows
    gpu, host = table.abandoned
    gpu += sum(row.gpu_pages + row.copying * (row.phase is Phase.SUSPENDED) for row in rows)
    host += sum(row.host_pages + row.copying * (row.phase is Phase.ACTIVE) for row in rows)
    if gpu > bounds.gpu_pages or host > bounds.host_pages:
        return "the requests hold more pages than there are"
    for row in rows:
        held_pages = row.gpu_pages + row.host_pages
        wanted = 1 + bounds.lookahead if row.decoding else min(bounds.chunk_tokens, row.tokens - row.computed)
        room = wanted if bounds.copies else bounds.lookahead
        needed, most = (
            -(-tokens // bounds.page_tokens) + (bounds.state_pages if tokens else 0)
            for tokens in (row.computed, row.computed + room)
        )
        held = {
            Phase.ACTIVE: needed <= held_pages <= most and row.host_pages == 0,
            Phase.SUSPENDED: needed <= held_pages <= most,
        }.get(row.phase, row.gpu_pages == row.host_pages == 0)
        if not held:
            return f"R{row.number} is {row.phase.label} and holds other pages than it may"
    return ""
