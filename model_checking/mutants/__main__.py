"""``NUMBA_DISABLE_JIT=1 python -m model_checking.mutants [--write] [--again] [--workers N] [--only TEXT]``: the matrix.

Takes what the record holds already of the mutants that still exist, unless told ``--again``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

from rich.console import Console
from rich.progress import track
from rich.table import Table

from model_checking.mutants.operators import Mutant
from model_checking.mutants.record import recorded, write
from model_checking.mutants.running import Outcome, all_mutants, judge, shipped_digests

MOST_SECONDS = 240
"""A mutant that takes longer does not end: the shipped pass takes a tenth of that."""


def judged(mutant: Mutant, digests: dict[str, str]) -> Outcome:
    """Judge a mutant in a process of its own, since its pass may never end."""
    ours, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_judge, args=(mutant, digests, theirs))
    process.start()
    theirs.close()
    try:
        if not ours.poll(MOST_SECONDS):
            return Outcome("does not end")
        return Outcome(*ours.recv())
    finally:
        process.kill()
        process.join()


def _judge(mutant: Mutant, digests: dict[str, str], answer: Connection) -> None:
    answer.send(tuple(judge(mutant, digests)))


def matrix(outcomes: dict[str, Outcome]) -> Table:
    """What kills how many mutants of each module."""
    modules = sorted({name.split(".")[0] for name in outcomes})
    table = Table("killed by", *(module.replace("_", "-") for module in modules), "all", title="Mutants of the pass")
    counts = Counter((outcome.by, name.split(".")[0]) for name, outcome in outcomes.items())
    total = Counter(outcome.by for outcome in outcomes.values())
    for by, number in total.most_common():
        table.add_row(by, *(str(counts[by, module] or "") for module in modules), str(number))
    table.add_row("", *(str(sum(counts[by, module] for by in total)) for module in modules), str(len(outcomes)))
    return table


def main() -> int:
    """Judge the mutants, print the matrix; with ``--write``, keep the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the record in matrix.json, as it grows")
    parser.add_argument("--again", action="store_true", help="judge what the record holds anew")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="mutants whose name contains this text")
    arguments = parser.parse_args()
    mutants = [mutant for mutant in all_mutants() if arguments.only in mutant.name]
    known = {} if arguments.again else recorded()
    missing = [mutant for mutant in mutants if mutant.name not in known]
    outcomes = {mutant.name: known[mutant.name] for mutant in mutants if mutant.name in known}
    digests = shipped_digests() if missing else {}
    console = Console(stderr=True)
    with ThreadPoolExecutor(arguments.workers) as pool:
        found = pool.map(lambda mutant: judged(mutant, digests), missing)
        for mutant, outcome in zip(missing, track(found, "mutants", len(missing), console=console), strict=True):
            outcomes[mutant.name] = outcome
            if arguments.write:
                write({**recorded(), **outcomes})
    if arguments.write:
        write({mutant.name: outcomes[mutant.name] for mutant in mutants} if not arguments.only else recorded())
    if arguments.only:
        for name, outcome in outcomes.items():
            print(f"{name}\n    {outcome}")
    Console(width=120).print(matrix(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
