"""Every error a user can meet.

::

    StallproofError            exit 1
    +-- UsageError             exit 2   bad input: says where, and what to do
    |   +-- TraceFormatError            a line of a workload or trace file cannot be read
    |   +-- UnknownPolicy               no policy of that name
    |   +-- PolicyFileError             a policy's file, or a rule in it, cannot be used
    |   |   +-- RuleNotCompiled         Numba cannot compile a rule; interpreted it may still run
    |   +-- PoolTooSmall                no request of a workload can ever fit
    +-- IllegalTransition               (in lifecycle) an event it does not allow; nothing was changed
    +-- Stall                           (in outcomes) the engine stalled: who waits for what, and the remedy
    |   +-- AllocationFailure           an allocation failed, and the policy's engine raises
    +-- ClaimViolated                   (in monitor) a watched scheduler broke a claim, and the monitor raises
    +-- RuleRaised                      a rule of a policy raised in the middle of a pass
    +-- ReplayError            exit 2   a recorded trace does not replay: says at which step
    +-- CertificationError     exit 4   (in certifier) a counterexample is none: a defect of ours, please report it
    +-- PageError                       a plan asks the page manager for what it cannot do

The exit code of the command line lives on the exception.
"""

EXIT_HOLDS = 0
EXIT_VIOLATED = 1
EXIT_USAGE = 2
EXIT_BOUND_REACHED = 3
EXIT_OUR_FAULT = 4


class StallproofError(Exception):
    """Base of all errors raised on purpose."""

    exit_code = EXIT_VIOLATED


class UsageError(StallproofError):
    """Bad input. ``place`` says where, ``remedy`` what to do about it."""

    exit_code = EXIT_USAGE

    def __init__(self, what: str, place: str = "", remedy: str = "") -> None:
        self.what, self.place, self.remedy = what, place, remedy
        where = f"{place}: " if place else ""
        todo = f" {remedy}" if remedy else ""
        super().__init__(f"{where}{what}.{todo}")


class TraceFormatError(UsageError):
    """A line of a workload or of a saved trace cannot be read."""


class UnknownPolicy(UsageError):
    """No policy has that name."""


class PolicyFileError(UsageError):
    """A policy's file cannot be read, or a rule in it is none: says the line."""


class RuleNotCompiled(PolicyFileError):
    """Numba cannot compile a rule. With ``NUMBA_DISABLE_JIT=1`` everything runs interpreted, that rule too."""


class PoolTooSmall(UsageError):
    """No request of a workload can ever fit the GPU pool."""


class RuleRaised(StallproofError):
    """A rule raised, or answered with no row. The pass it was asked in has changed nothing."""

    def __init__(self, policy: str, error: Exception) -> None:
        super().__init__(
            f"a rule of {policy} failed: {type(error).__name__}: {error}. "
            f"`stallproof check --policy {policy}` finds the shortest way there, and the line."
        )


class ReplayError(StallproofError):
    """A recorded trace does not replay. It shows nothing, so it must not exit like one that breaks its claim."""

    exit_code = EXIT_USAGE


class PageError(StallproofError):
    """A plan asks the page manager for something it cannot do; no page was moved."""
