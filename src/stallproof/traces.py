"""A run of a policy, step by step: replayed from an initial state, saved to a file, read back.

A trace is a list of moves, and for a lasso where its loop starts. Everything else follows from the
moves by replaying them; a saved trace also holds the states, and reading it checks them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stallproof.bounds import Bounds
from stallproof.claims import Claim, Kind
from stallproof.errors import PolicyFileError, ReplayError, RuleNotCompiled, TraceFormatError, UsageError
from stallproof.files import write_whole
from stallproof.lifecycle import Event, Phase
from stallproof.model import OF_A_ROW, LifecycleModel, Move
from stallproof.model import Kind as MoveKind
from stallproof.packing import Words, pack, unpack
from stallproof.policies import Policy, policy_named
from stallproof.properties import PROPERTIES
from stallproof.requests import Requests
from stallproof.tiers import GPU, HOST, abandoned
from stallproof.witness import Step

FORMAT, VERSION = "stallproof trace", 2


class Operation(NamedTuple):
    """One operation of a plan. ``request`` and ``requester`` are arrival numbers, from 1; no requester: 0."""

    event: Event
    request: int
    amount: int
    requester: int
    lost_tokens: int


class RequestState(NamedTuple):
    """One live request after a step. ``number`` is its arrival number in the trace, from 1."""

    number: int
    phase: Phase
    decoding: bool
    tokens: int
    output_left: int
    computed: int
    gpu_pages: int
    host_pages: int
    copying: int
    priority: int


class Moment(NamedTuple):
    """One step of a trace, and the state after it.

    ``number``: the request it happens to, or 0. ``abandoned``: GPU and host pages that copies of requests
    that have gone still fence. ``failed``: the policy raised, and the server stops.
    """

    move: Move
    number: int
    operations: tuple[Operation, ...]
    requests: tuple[RequestState, ...]
    abandoned: tuple[int, int]
    facts: int
    failed: bool
    row: Words


@dataclass(frozen=True)
class Run:
    """A run from the state without requests. With ``loop_start``, the moves from there on repeat for ever."""

    policy: Policy
    bounds: Bounds
    moves: tuple[Move, ...]
    moments: tuple[Moment, ...]
    loop_start: int | None


@dataclass(frozen=True)
class Trace(Run):
    """A run that makes ``claim`` false."""

    claim: Claim


def run_of(model: LifecycleModel, moves: Sequence[Move], loop_start: int | None = None) -> Run:
    """Replay ``moves``. Raises ReplayError at the first move the environment cannot make."""
    return Run(model.policy, model.bounds, tuple(moves), tuple(walk(model, moves)), loop_start)


def drained_after(model: LifecycleModel, moves: Sequence[Move]) -> Run:
    """``moves``, then passes alone until nobody is left; or a lasso, if that never happens."""
    moments: list[Moment] = []
    seen: dict[bytes, int] = {}
    loop_start = None
    for moment in walk(model, chain(moves, repeat(Move(MoveKind.PASS)))):
        moments.append(moment)
        if len(moments) >= len(moves):
            if not moment.requests:
                break
            loop_start = seen.get(moment.row.tobytes())
            if loop_start is not None:
                break
            seen[moment.row.tobytes()] = len(moments)
    return Run(model.policy, model.bounds, tuple(moment.move for moment in moments), tuple(moments), loop_start)


def walk(model: LifecycleModel, moves: Iterable[Move]) -> Iterator[Moment]:
    """Carry out ``moves`` from the state without requests.

    Raises ReplayError at the first move the environment cannot make.
    """
    step = model.new_step()
    row: Words = model.initial_rows()[0]
    numbers: list[int] = []  # arrival number by row
    arrived = 0
    for k, move in enumerate(moves, 1):
        unpack(row, step.before, step.tiers_before)
        _refuse_impossible(model, row, move, k)
        if move.kind is MoveKind.ARRIVE:
            arrived += 1
            numbers.append(arrived)
        facts = model.run(step, move)
        subject = 0
        if move.kind is MoveKind.ARRIVE:
            subject = arrived
        elif move.kind in OF_A_ROW:
            subject = numbers[move.request]
        operations = tuple(_operations(step, numbers))
        stayed = [r for r in range(len(numbers)) if Phase(int(step.after.phase[r])) is not Phase.FINISHED]
        stayed.sort(key=lambda r: int(step.after.priority[r]))
        numbers = [numbers[r] for r in stayed]
        row = np.zeros_like(row)
        pack(step.after, step.tiers, row)
        states = tuple(_state(step.after, r, number) for r, number in zip(stayed, numbers, strict=True))
        fenced = int(abandoned(step.after, step.tiers, GPU)), int(abandoned(step.after, step.tiers, HOST))
        yield Moment(move, subject, operations, states, fenced, facts, bool(step.plan.failed[0]), row)


def _refuse_impossible(model: LifecycleModel, row: Words, move: Move, k: int) -> None:
    if move not in {Move.of_label(int(label)) for label in model.successors(row[None, :]).label}:
        what = ", ".join(f"{name} {value}" for name, value in move._asdict().items() if name != "kind")
        raise ReplayError(f"step {k}: nobody can make the move {move.kind.name.lower()} ({what}) here")


def _operations(step: Step, numbers: Sequence[int]) -> Iterator[Operation]:
    for k in range(int(step.plan.operations[0])):
        r, requester = int(step.plan.request[k]), int(step.plan.requester[k])
        yield Operation(
            event=Event(int(step.plan.event[k])),
            request=numbers[r],
            amount=int(step.plan.amount[k]),
            requester=numbers[requester] if requester >= 0 else 0,
            lost_tokens=int(step.before.computed[r]),
        )


def _state(requests: Requests, r: int, number: int) -> RequestState:
    return RequestState(
        number=number,
        phase=Phase(int(requests.phase[r])),
        decoding=bool(requests.decoding[r]),
        tokens=int(requests.tokens[r]),
        output_left=int(requests.output_left[r]),
        computed=int(requests.computed[r]),
        gpu_pages=int(requests.gpu_pages[r]),
        host_pages=int(requests.host_pages[r]),
        copying=int(requests.copying[r]),
        priority=int(requests.priority[r]),
    )


def trace_of(model: LifecycleModel, claim: Claim, moves: Sequence[Move], loop_start: int | None) -> Trace:
    """Replay ``moves`` and make sure that they refute ``claim``. Raises ReplayError if they do not."""
    moments = tuple(walk(model, moves))
    bit = 1 << [known.name for known in PROPERTIES].index(claim.name)
    if not moments:
        raise ReplayError(f"an empty trace says nothing about {claim.name}")
    if claim.kind is Kind.EVENTUALLY:
        if loop_start is None or not 0 <= loop_start < len(moves):
            raise ReplayError(f"{claim.name} needs a loop, and the trace names none")
        entry = model.initial_rows()[0] if loop_start == 0 else moments[loop_start - 1].row
        loop = moments[loop_start:]
        if not (entry == loop[-1].row).all():
            raise ReplayError("the loop does not close: its last state is not its first")
        if not all(moment.facts & bit for moment in loop):
            raise ReplayError(f"{claim.name} is fulfilled on the way round the loop")
        if not any(moment.move.kind is MoveKind.PASS for moment in loop):
            raise ReplayError("the loop has no pass: only the environment dawdles")
        if not _fair(model, entry, loop):
            raise ReplayError("a copy is in flight all the way round the loop: it would never be done")
    elif claim.kind is Kind.SOMETIMES:
        raise ReplayError(f"{claim.name} says that something happens; no trace can show that it does not")
    elif loop_start is not None:
        raise ReplayError(f"{claim.name} fails in one step, and the trace names a loop")
    elif not moments[-1].facts & bit:
        raise ReplayError(f"the last step does not make {claim.name} false")
    return Trace(model.policy, model.bounds, tuple(moves), moments, loop_start, claim)


def _fair(model: LifecycleModel, entry: Words, loop: Sequence[Moment]) -> bool:
    """Every mark of the model occurs on the loop."""
    seen, row = 0, entry
    for moment in loop:
        made = model.successors(row[None, :])
        seen |= int(made.facts[list(made.label).index(moment.move.label)])
        row = moment.row
    return all(seen >> bit & 1 for bit in model.fairness)


def save(trace: Trace, path: Path) -> None:
    """Write ``trace`` as JSON."""
    write_whole(path, json.dumps(as_json(trace), indent=1) + "\n", "--trace")


def as_json(trace: Trace) -> dict[str, Any]:
    """Plain values for a JSON file."""
    about = {"property": trace.claim.name, "sentence": trace.claim.sentence}
    return {"format": FORMAT, "version": VERSION} | about | run_as_json(trace)


def run_as_json(run: Run) -> dict[str, Any]:
    """Policy, bounds and steps, as plain values."""
    return {
        "policy": run.policy.name,
        "bounds": run.bounds._asdict(),
        "loop_start": run.loop_start,
        "steps": [
            {
                "move": moment.move.kind.name.lower(),
                "request": moment.move.request,
                "prompt": moment.move.prompt,
                "output": moment.move.output,
                "priority": moment.move.priority,
                "drafts": moment.move.drafts,
                "abandoned": list(moment.abandoned),
                "after": [state._replace(phase=state.phase.label)._asdict() for state in moment.requests],  # type: ignore[arg-type] # its name, for people
            }
            for moment in run.moments
        ],
    }


def load(path: Path) -> Trace:
    """Read a saved trace and replay it from the state without requests, checking every state on the way.

    Raises TraceFormatError if the file is no such trace, ReplayError if it does not replay.
    """
    remedy = "Give a file that `stallproof check --trace` wrote."
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a NUL in the name
        raise TraceFormatError(f"cannot be read ({error})", repr(str(path))[1:-1], remedy) from None
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise TraceFormatError(f"is not JSON: {error.msg}", f"{path}, line {error.lineno}", remedy) from None
    except (ValueError, RecursionError) as error:
        raise TraceFormatError(f"is no JSON that can be read ({error})", str(path), remedy) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("version") != VERSION:
        raise TraceFormatError(f"is no '{FORMAT}' of version {VERSION}", str(path), remedy)
    try:
        claim = next(known for known in PROPERTIES if known.name == data["property"])
        sizes = {name: _same_type(data["bounds"][name], like) for name, like in Bounds()._asdict().items()}
        bounds = Bounds(**{**data["bounds"], **sizes})  # one name too many, and this fails
        moves = [
            Move(MoveKind[step["move"].upper()], *(_same_type(step[field], 0) for field in Move._fields[1:]))
            for step in data["steps"]
        ]
        expected = [(step["after"], step["abandoned"]) for step in data["steps"]]
        loop_start = None if data["loop_start"] is None else _same_type(data["loop_start"], 0)
        model = LifecycleModel(policy_named(data["policy"]), bounds)
    except RuleNotCompiled:
        raise
    except PolicyFileError as error:
        remedy = f"The trace is of {data['policy']}: have that file here, as it was."
        raise TraceFormatError(error.what, f"{path}, {error.place}", remedy) from None
    except UsageError as error:
        raise TraceFormatError(error.what, f"{path}, {error.place}".rstrip(", "), error.remedy) from None
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as error:
        raise TraceFormatError(f"a field is missing or wrong ({error!r})", str(path), remedy) from None
    stale = "The policy has changed since, or the file was edited: write it anew with `stallproof check --trace`."
    try:
        trace = trace_of(model, claim, moves, loop_start)
    except ReplayError as error:
        raise ReplayError(f"{path}: {error}. {stale}") from None
    for k, (step, after) in enumerate(zip(as_json(trace)["steps"], expected, strict=True), 1):
        if json.dumps((step["after"], step["abandoned"])) != json.dumps(after):  # 1.0 is not 1
            raise ReplayError(f"{path}: step {k} leads elsewhere than recorded. {stale}")
    return trace


def _same_type(value: Any, like: Any) -> Any:
    if type(value) is not type(like):
        raise TypeError(f"{value!r} is no {type(like).__name__}")
    return value
