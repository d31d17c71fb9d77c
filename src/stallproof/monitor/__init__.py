"""Watches a scheduler from outside: checks what it observes against the lifecycle and the claims, pass by pass.

::

    engine -> Change, PassEnd -> Monitor.observe -> [table] -> claims -> Violation -> on_violation, a file

It imports neither scheduling nor policies nor pages, changes nothing of what it watches, and a fault of its own never
reaches the engine.
"""

from stallproof.monitor.watching import ClaimViolated, Monitor, Violation

__all__ = ["ClaimViolated", "Monitor", "Violation"]
