"""Certifies counterexamples: a second, small checker that runs the shipped pass as plain Python.

It shares with the explorer the lifecycle table, the pass itself and the properties, and nothing
else: no explorer, no model, no packed state, no compiled code. It runs in a process of its own with
``NUMBA_DISABLE_JIT=1``::

    python -m stallproof.certifier [FILE]      a trace, or a list of traces, as JSON; standard input without FILE

For each trace it checks that it starts from the state without requests; that every move is one the
environment or the system can make; that every recorded state is what the pass makes; that in every
state pages are conserved and stand where the phase allows; and that the claim really fails: in the
last step, or all the way round a loop that closes and has a pass in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from stallproof.bounds import Bounds
from stallproof.claims import Claim, Kind
from stallproof.compiled import INTERPRETED
from stallproof.errors import EXIT_HOLDS, EXIT_OUR_FAULT, EXIT_VIOLATED, StallproofError
from stallproof.lifecycle import Event, Phase
from stallproof.plan import SELF, perform
from stallproof.policies import Policy, policy_named
from stallproof.properties import PROPERTIES
from stallproof.requests import clear_row
from stallproof.scheduling import compute, schedule
from stallproof.tiers import GPU, HOST, peak_pages
from stallproof.witness import Step, begin, new_step, replay

LIVE = (Phase.WAITING, Phase.ACTIVE, Phase.SUSPENDED, Phase.RECOMPUTE_PAUSED)


class CertificationError(StallproofError):
    """A trace does not show what it says. Names the step."""

    exit_code = EXIT_OUR_FAULT


@dataclass(frozen=True)
class Certificate:
    """What was certified: the property fails along a run of so many steps, the last ``loop`` of them for ever."""

    property: str
    steps: int
    loop: int


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
    place: int = 0

    def recorded(self) -> dict[str, Any]:
        """As a trace file records it."""
        values = asdict(self) | {"phase": self.phase.label}
        del values["place"]
        return values

    def same_as(self, other: Row) -> bool:
        """Equal but for the number: two requests in the same state are the same to any scheduler."""
        return self == replace(other, number=self.number)


Table = tuple[Row, ...]


def certify(trace: dict[str, Any], policy: Policy | None = None) -> Certificate:
    """Certify one trace in this process, which must be interpreted. Raises CertificationError.

    ``policy``: instead of the one the trace names, for policies that have no name.
    """
    claim = next((known for known in PROPERTIES if known.name == trace["property"]), None)
    if claim is None or claim.kind is Kind.SOMETIMES:
        raise CertificationError(f"no trace can show that {trace['property']} fails")
    states: list[Table] = [()]
    breaks: list[bool] = []
    passes: list[bool] = []
    for step, _, after in replayed(trace, policy):
        breaks.append(bool(claim.predicate(step)) is (claim.kind is Kind.EVENTUALLY))
        passes.append(step.is_pass[0] == 1)
        states.append(after)
    loop = _judge(claim, states, breaks, passes, trace["loop_start"])
    return Certificate(claim.name, len(breaks), loop)


def replayed(trace: dict[str, Any], policy: Policy | None = None) -> Iterator[tuple[Step, Table, Table]]:
    """Each recorded step, checked, and the rows before and after it. The ``Step`` is good until the next one.

    Raises CertificationError at the first that nobody can make, or that leads elsewhere than recorded.
    """
    if not INTERPRETED:
        raise CertificationError("certify runs only with NUMBA_DISABLE_JIT=1; call certify_all")
    bounds = Bounds(**trace["bounds"]).checked()
    rules = (policy or policy_named(trace["policy"])).rules
    step = new_step(bounds.live, bounds.gpu_pages, bounds.host_pages, bounds.page_tokens)
    rows: Table = ()
    arrived = 0
    for k, recorded in enumerate(trace["steps"], 1):
        before = rows
        _lay_out(step, before, bounds)
        arrived += _move(step, recorded, before, bounds, rules, k)
        rows = _read_back(step, before, arrived)
        _compare(rows, recorded["after"], k)
        _count_pages(rows, bounds, k)
        yield step, before, rows


def _lay_out(step: Step, rows: Table, bounds: Bounds) -> None:
    """Write the rows and the page counts that follow from them into ``step.before``."""
    for r in range(bounds.live):
        clear_row(step.before, r, Phase.NEW)
    free = [bounds.gpu_pages, bounds.host_pages]
    held = [0, 0]
    for r, row in enumerate(rows):
        values = (row.phase, row.decoding, row.tokens, row.output_left, row.computed, row.gpu_pages, row.host_pages)
        for column, value in zip(step.before, (*values, row.place), strict=True):
            column[r] = value
        for tier, pages in ((GPU, row.gpu_pages), (HOST, row.host_pages)):
            free[tier] -= pages
            held[tier] += pages if row.phase is Phase.SUSPENDED else 0
    step.tiers_before.free[:], step.tiers_before.held[:] = free, held


def _move(step: Step, recorded: dict[str, Any], rows: Table, bounds: Bounds, rules: Any, k: int) -> int:
    """Carry out one move. Returns how many requests arrived. Raises CertificationError if nobody can make it."""

    def insist(holds: bool, sentence: str) -> None:
        if not holds:
            raise CertificationError(f"step {k}: {sentence}")

    move, r = recorded["move"], recorded["request"]
    begin(step, int(move == "pass"))
    if move == "pass":
        schedule(step.after, step.tiers, rules, bounds.chunk_tokens, step.plan)
        compute(step.after, step.tiers, step.plan)
        replay(step, bounds.chunk_tokens)
        return 0
    if move in ("arrive", "refuse"):
        prompt, output = recorded["prompt"], recorded["output"]
        insist(len(rows) < bounds.live, f"{len(rows)} requests are live already")
        insist(1 <= prompt <= bounds.max_prompt, f"a prompt of {prompt} tokens is not within the bounds")
        insist(1 <= output <= bounds.max_output, f"an output of {output} tokens is not within the bounds")
        fits = peak_pages(prompt, output, bounds.page_tokens) <= bounds.gpu_pages
        insist(fits is (move == "arrive"), "a request arrives if it can ever fit, and else is refused")
        if move == "refuse":
            return 0
        perform(step.after, step.tiers, step.plan, Event.ARRIVE, len(rows), 0, SELF)
        step.after.tokens[len(rows)], step.after.output_left[len(rows)] = prompt, output
        replay(step, 1)
        return 1
    insist(move in ("stop", "cancel"), f"'{move}' is no move")
    insist(0 <= r < len(rows), f"there is no request in row {r}")
    if move == "stop":
        insist(bounds.early_stop, "the bounds allow no early stop")
        insist(rows[r].phase is Phase.ACTIVE and rows[r].decoding, "only an active decode can stop early")
    else:
        insist(bounds.cancel, "the bounds allow no cancellation")
    event = Event.FINISH if move == "stop" else Event.CANCEL
    perform(step.after, step.tiers, step.plan, event, r, 0, SELF)
    replay(step, 1)
    return 0


def _read_back(step: Step, before: Table, arrived: int) -> Table:
    """The live rows of ``step.after``, closed up, ages of suspensions counted anew."""
    numbers = [row.number for row in before] + [arrived]
    live = [r for r in range(len(step.after.phase)) if Phase(int(step.after.phase[r])) in LIVE]
    ages = sorted(
        (int(step.after.suspension[r]), r)
        for r in live
        if Phase(int(step.after.phase[r])) is Phase.SUSPENDED and step.after.gpu_pages[r] > 0
    )
    place = {r: age for age, (_, r) in enumerate(ages, 1)}
    return tuple(
        Row(
            number=numbers[r],
            phase=Phase(int(step.after.phase[r])),
            decoding=bool(step.after.decoding[r]),
            tokens=int(step.after.tokens[r]),
            output_left=int(step.after.output_left[r]),
            computed=int(step.after.computed[r]),
            gpu_pages=int(step.after.gpu_pages[r]),
            host_pages=int(step.after.host_pages[r]),
            place=place.get(r, 0),
        )
        for r in live
    )


def _compare(rows: Table, recorded: Sequence[dict[str, Any]], k: int) -> None:
    """Every recorded field is what the pass makes."""
    if len(rows) != len(recorded):
        raise CertificationError(f"step {k}: {len(rows)} requests are live, {len(recorded)} recorded")
    for row, found in zip(rows, recorded, strict=True):
        for field, value in row.recorded().items():
            if found.get(field) != value or type(found.get(field)) is not type(value):
                raise CertificationError(
                    f"step {k}: R{row.number}, {field}: the pass makes {value!r}, recorded {found.get(field)!r}"
                )


def _count_pages(rows: Table, bounds: Bounds, k: int) -> None:
    """Pages are conserved and stand where the phase allows, by arithmetic of its own."""
    if sum(row.gpu_pages for row in rows) > bounds.gpu_pages or sum(row.host_pages for row in rows) > bounds.host_pages:
        raise CertificationError(f"step {k}: the requests hold more pages than there are")
    for row in rows:
        needed = -(-row.computed // bounds.page_tokens)
        held = {
            Phase.ACTIVE: row.gpu_pages == needed and row.host_pages == 0,
            Phase.SUSPENDED: row.gpu_pages + row.host_pages == needed,
        }.get(row.phase, row.gpu_pages == row.host_pages == 0)
        if not held:
            raise CertificationError(f"step {k}: R{row.number} is {row.phase.label} and holds other pages than it may")


def _judge(claim: Claim, states: list[Table], breaks: list[bool], passes: list[bool], loop_start: int | None) -> int:
    """The claim fails where the trace says. Returns the loop's length, 0 without one."""
    if not breaks:
        raise CertificationError("a trace without steps shows nothing")
    if claim.kind is Kind.ALWAYS:
        if not breaks[-1]:
            raise CertificationError(f"the last step does not make {claim.name} false")
        return 0
    if loop_start is None or not 0 <= loop_start < len(breaks):
        raise CertificationError(f"{claim.name} fails only for ever, and the trace names no loop")
    require_closed(states, loop_start)
    if not all(breaks[loop_start:]):
        raise CertificationError(f"step {breaks.index(False, loop_start) + 1} fulfils {claim.name}")
    if not any(passes[loop_start:]):
        raise CertificationError("no pass in the loop: the system is not given its steps")
    if claim.name == "oldest-finishes" and len({rows[0].number for rows in states[loop_start:]}) != 1:
        raise CertificationError("not the same request stays the oldest all the way round")
    return len(breaks) - loop_start


def require_closed(states: Sequence[Table], loop_start: int) -> None:
    """The last state is that after ``loop_start`` steps. Raises CertificationError."""
    entry, last = states[loop_start], states[-1]
    if len(entry) != len(last) or not all(a.same_as(b) for a, b in zip(entry, last, strict=True)):
        raise CertificationError(
            f"the loop does not close: the state after the last step is not that after {loop_start}"
        )


def certify_all(traces: Sequence[dict[str, Any]], module: str = "stallproof.certifier") -> list[Certificate]:
    """Certify ``traces`` in a process of its own, running ``module``. Raises CertificationError with what was wrong."""
    if not traces:
        return []
    done = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(list(traces)),
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "NUMBA_DISABLE_JIT": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")))),
        },
    )
    if done.returncode != EXIT_HOLDS:
        raise CertificationError(f"a counterexample was not certified: {done.stderr.strip()}")
    return [Certificate(**each) for each in json.loads(done.stdout)]


def main(arguments: Sequence[str], certify: Callable[[dict[str, Any]], Certificate] = certify) -> int:
    """Certify the traces of a file or of standard input; print the certificates as JSON."""
    text = Path(arguments[0]).read_text(encoding="utf-8") if arguments else sys.stdin.read()
    read = json.loads(text)
    try:
        certificates = [certify(trace) for trace in (read if isinstance(read, list) else [read])]
    except StallproofError as error:
        print(error, file=sys.stderr)
        return EXIT_VIOLATED
    print(json.dumps([asdict(certificate) for certificate in certificates]))
    return EXIT_HOLDS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
