"""Schedulers that are watched, for the tests of the monitor."""

from __future__ import annotations

import random

from stallproof.engine import Engine
from stallproof.lifecycle import Event
from stallproof.monitor import Monitor
from stallproof.observations import Change, PassEnd, Pool

POOL = Pool(gpu_pages=4, host_pages=1, page_tokens=1)


def ignore(_):
    """Whoever is told of a violation, and does nothing: the monitor keeps it."""


def watched(seen, pool=POOL, **options):
    """A monitor that has observed all of ``seen``, and kept what it found."""
    monitor = Monitor(pool, on_violation=options.pop("on_violation", ignore), **options)
    for one in seen:
        monitor.observe(one)
    assert (monitor.faults, monitor.fault) == (0, "")
    return monitor


def found(seen, pool=POOL, **options):
    """The names of what a monitor finds in ``seen``, in order."""
    return [violation.property for violation in watched(seen, pool, **options).violations]


def arrive(request, tokens=2, most=4):
    return Change(Event.ARRIVE, request, 0, 0, tokens, 0, most)


def two_active():
    """Requests 0 and 1, two pages each, all four GPU pages taken."""
    return [
        arrive(0),
        arrive(1),
        Change(Event.ADMIT, 0, 2, 0, 2, 0),
        Change(Event.ADMIT, 1, 2, 0, 2, 0),
        PassEnd(1, {0: 2, 1: 2}, 0, 1),
    ]


def drive(policy, host_pages, observer, requests=30, seed=1):
    """An engine of twenty GPU pages under pressure, to its end."""
    lengths = random.Random(seed)
    sizes = {"gpu_pages": 20, "host_pages": host_pages, "page_tokens": 4}
    engine = Engine(policy, **sizes, chunk_tokens=8, observer=observer)
    for _ in range(requests):
        engine.submit(lengths.randint(1, 30), lengths.randint(1, 30))
    while engine.live:
        engine.run_pass()
    return engine
