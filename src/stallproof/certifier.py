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
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stallproof.bounds import Bounds
from stallproof.claims import Claim, Kind
from stallproof.compiled import INTERPRETED, interpreted_environment
from stallproof.errors import EXIT_HOLDS, EXIT_OUR_FAULT, EXIT_USAGE, EXIT_VIOLATED, PolicyFileError, StallproofError
from stallproof.lifecycle import Event, Phase
from stallproof.limits import UNLIMITED, Limits
from stallproof.plain_states import Table, lay_out, misplaced_pages, read_back
from stallproof.plan import SELF, perform
from stallproof.policies import Policy, Rules, policy_named
from stallproof.policies.loading import names_a_file
from stallproof.policies.watching import Watcher, watcher_of
from stallproof.properties import PROPERTIES
from stallproof.scheduling import compute, schedule
from stallproof.tiers import peak_pages
from stallproof.witness import ABANDONED, Step, begin, new_step, replay, settle_copies, undo_if_failed


class CertificationError(StallproofError):
    """A trace does not show what it says. Names the step."""

    exit_code = EXIT_OUR_FAULT


@dataclass(frozen=True)
class Certificate:
    """What was certified: the property fails along a run of so many steps, the last ``loop`` of them for ever.

    ``notes``: what a rule from somebody's file did wrong on the way, in sentences.
    """

    property: str
    steps: int
    loop: int
    notes: Sequence[str] = ()


def certify(trace: dict[str, Any], policy: Policy | None = None) -> Certificate:
    """Certify one trace in this process, which must be interpreted. Raises CertificationError.

    ``policy``: instead of the one the trace names, for policies that have no name.
    """
    claim = next((known for known in PROPERTIES if known.name == trace["property"]), None)
    if claim is None or claim.kind is Kind.SOMETIMES:
        raise CertificationError(f"no trace can show that {trace['property']} fails")
    states: list[Table] = [Table()]
    breaks: list[bool] = []
    passes: list[bool] = []
    settled: list[int] = []
    notes: list[str] = []
    for step, before, after in replayed(trace, policy, notes):
        breaks.append(bool(claim.predicate(step)) is (claim.kind is Kind.EVENTUALLY))
        passes.append(step.is_pass[0] == 1)
        row = int(step.settles[0])
        settled.append(before.rows[row].number if row >= 0 else row)
        states.append(after)
    loop = _judge(claim, states, breaks, passes, trace["loop_start"])
    if loop:
        _insist_on_fairness(states[-loop - 1 :], settled[-loop:])
    return Certificate(claim.name, len(breaks), loop, tuple(notes))


def _insist_on_fairness(states: Sequence[Table], settled: Sequence[int]) -> None:
    """No copy is in flight all the way round the loop. ``settled``: whose copies each step finishes."""
    steps = list(zip(states, settled, strict=False))
    for copies in states[0].in_flight():
        if all(copies in before.in_flight() and done != copies for before, done in steps):
            raise CertificationError("a copy is in flight all the way round the loop: it would never be done")


def replayed(
    trace: dict[str, Any], policy: Policy | None = None, notes: list[str] | None = None
) -> Iterator[tuple[Step, Table, Table]]:
    """Each recorded step, checked, and the state before and after it. The ``Step`` is good until the next one.

    ``notes`` gets what went wrong in a rule. Raises CertificationError at the first step that nobody can make, or
    that leads elsewhere than recorded.
    """
    if not INTERPRETED:
        raise CertificationError("certify runs only with NUMBA_DISABLE_JIT=1; call certify_all")
    bounds = Bounds(**trace["bounds"]).checked()
    rules = (policy or policy_named(trace["policy"])).rules
    watcher = watcher_of(rules) or Watcher()
    most = (bounds.pass_requests or UNLIMITED, bounds.pass_tokens or UNLIMITED)
    limits = Limits(bounds.chunk_tokens, bounds.lookahead, *most)
    sizes = (bounds.live, bounds.gpu_pages, bounds.host_pages, bounds.page_tokens)
    step = new_step(*sizes, limits, bounds.copies, bounds.state_pages)
    after = Table()
    arrived = 0
    for k, recorded in enumerate(trace["steps"], 1):
        before = after
        watcher.numbers = [row.number for row in before.rows]
        lay_out(step, before, bounds)
        arrived += _move(step, recorded, before, bounds, rules, watcher, k)
        after = read_back(step, before.rows, arrived)
        _compare(after, recorded, k)
        if wrong := misplaced_pages(after, bounds):
            raise CertificationError(f"step {k}: {wrong}")
        if notes is not None:
            notes.extend(f"step {k}: {note}" for note in dict.fromkeys(watcher.notes))
        watcher.notes.clear()
        yield step, before, after


def _move(
    step: Step, recorded: dict[str, Any], table: Table, bounds: Bounds, rules: Rules, watcher: Watcher, k: int
) -> int:
    """Carry out one move. Returns how many requests arrived. Raises CertificationError if nobody can make it."""

    def insist(holds: bool, sentence: str) -> None:
        if not holds:
            raise CertificationError(f"step {k}: {sentence}")

    move, r, rows = recorded["move"], recorded["request"], table.rows
    begin(step, int(move == "pass"))
    if move == "pass":
        drafts = recorded["drafts"]
        for row in range(bounds.live):
            drafts, accepted = divmod(drafts, bounds.lookahead + 1)
            decodes = row < len(rows) and rows[row].decoding
            insist(accepted == 0 or decodes, "drafts of a request that does not decode")
            step.plan.drafts_accepted[row] = accepted
        insist(drafts == 0, "drafts of more requests than are live")
        try:
            schedule(step.after, step.tiers, rules, step.limits, step.plan)
            compute(step.after, step.tiers, step.plan)
        except Exception as error:  # as in the model: an illegal pass counts as one that changed nothing
            watcher.notes.append(str(error))
            begin(step, 1)
            step.legal[0] = 0
            return 0
        undo_if_failed(step)
        replay(step)
        return 0
    if move in ("arrive", "refuse"):
        prompt, output = recorded["prompt"], recorded["output"]
        insist(len(rows) < bounds.live, f"{len(rows)} requests are live already")
        insist(1 <= prompt <= bounds.max_prompt, f"a prompt of {prompt} tokens is not within the bounds")
        insist(1 <= output <= bounds.max_output, f"an output of {output} tokens is not within the bounds")
        insist(0 <= recorded["priority"] < bounds.priorities, f"there is no priority {recorded['priority']}")
        peak = peak_pages(prompt, output, bounds.page_tokens, bounds.lookahead, bounds.state_pages)
        fits = peak <= bounds.gpu_pages
        insist(fits is (move == "arrive"), "a request arrives if it can ever fit, and else is refused")
        if move == "refuse":
            return 0
        perform(step.after, step.tiers, step.plan, Event.ARRIVE, len(rows), 0, SELF)
        step.after.tokens[len(rows)], step.after.output_left[len(rows)] = prompt, output
        step.after.priority[len(rows)] = recorded["priority"]
        replay(step)
        return 1
    if move in ("settle", "settle_abandoned"):
        insist(move != "settle" or 0 <= r < len(rows), f"there is no request in row {r}")
        step.settles[0], copies = (r, rows[r].number) if move == "settle" else (ABANDONED, ABANDONED)
        insist(copies in table.in_flight(), "no such copy is in flight")
        settle_copies(step, step.after, step.tiers)
        replay(step)
        return 0
    insist(move in ("stop", "cancel"), f"'{move}' is no move")
    insist(0 <= r < len(rows), f"there is no request in row {r}")
    if move == "stop":
        insist(bounds.early_stop, "the bounds allow no early stop")
        stops = rows[r].phase is Phase.ACTIVE and rows[r].decoding and not rows[r].copying
        insist(stops, "only an active decode can stop early")
    else:
        insist(bounds.cancel, "the bounds allow no cancellation")
    event = Event.FINISH if move == "stop" else Event.CANCEL
    perform(step.after, step.tiers, step.plan, event, r, 0, SELF)
    replay(step)
    return 0


def _compare(table: Table, step: dict[str, Any], k: int) -> None:
    """Every recorded field is what the pass makes."""
    rows, recorded = table.rows, step["after"]
    if len(rows) != len(recorded):
        raise CertificationError(f"step {k}: {len(rows)} requests are live, {len(recorded)} recorded")
    if list(table.abandoned) != step["abandoned"]:
        raise CertificationError(f"step {k}: abandoned copies fence {table.abandoned}, recorded {step['abandoned']}")
    for row, found in zip(rows, recorded, strict=True):
        for field, value in row.recorded().items():
            if found.get(field) != value or type(found.get(field)) is not type(value):
                raise CertificationError(
                    f"step {k}: R{row.number}, {field}: the pass makes {value!r}, recorded {found.get(field)!r}"
                )


def _judge(claim: Claim, states: list[Table], breaks: list[bool], passes: list[bool], loop_start: int | None) -> int:
    """The claim fails where the trace says. Returns the loop's length, 0 without one."""
    if not breaks:
        raise CertificationError("a trace without steps shows nothing")
    if claim.kind is Kind.ALWAYS:
        if not breaks[-1]:
            raise CertificationError(f"the last step does not make {claim.name} false")
        if loop_start is not None:
            raise CertificationError(f"{claim.name} fails in one step, and the trace names a loop")
        return 0
    if loop_start is None or not 0 <= loop_start < len(breaks):
        raise CertificationError(f"{claim.name} fails only for ever, and the trace names no loop")
    require_closed(states, loop_start)
    if not all(breaks[loop_start:]):
        raise CertificationError(f"step {breaks.index(False, loop_start) + 1} fulfils {claim.name}")
    if not any(passes[loop_start:]):
        raise CertificationError("no pass in the loop: the system is not given its steps")
    if claim.name == "oldest-finishes" and len({table.rows[0].number for table in states[loop_start:]}) != 1:
        raise CertificationError("not the same request stays the oldest all the way round")
    return len(breaks) - loop_start


def require_closed(states: Sequence[Table], loop_start: int) -> None:
    """The last state is that after ``loop_start`` steps. Raises CertificationError."""
    entry, last = states[loop_start], states[-1]
    same = len(entry.rows) == len(last.rows) and entry.abandoned == last.abandoned
    if not same or not all(a.same_as(b) for a, b in zip(entry.rows, last.rows, strict=True)):
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
        env=interpreted_environment(),
    )
    if done.returncode != EXIT_HOLDS:
        if any(names_a_file(trace["policy"]) for trace in traces):
            raise PolicyFileError(
                f"interpreted it does not answer as it does compiled ({done.stderr.strip()})",
                traces[0]["policy"],
                "Answer from the arguments alone, with plain integers, within the rows of the table.",
            )
        raise CertificationError(f"a counterexample was not certified: {done.stderr.strip()}")
    return [Certificate(**each) for each in json.loads(done.stdout)]


def main(arguments: Sequence[str], certify: Callable[[dict[str, Any]], Certificate] = certify) -> int:
    """Certify the traces of a file or of standard input; print the certificates as JSON."""
    try:
        text = Path(arguments[0]).read_text(encoding="utf-8") if arguments else sys.stdin.read()
        read = json.loads(text)
        certificates = [certify(trace) for trace in (read if isinstance(read, list) else [read])]
    except StallproofError as error:
        print(error, file=sys.stderr)
        return EXIT_VIOLATED
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"no trace that can be read: {error!r}", file=sys.stderr)
        return EXIT_USAGE
    print(json.dumps([asdict(certificate) for certificate in certificates]))
    return EXIT_HOLDS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
