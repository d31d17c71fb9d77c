"""The lifecycle of one request: phases, events, and the transition table.

The table below is the whole lifecycle. The lookup array of the compiled pass (``lookup``), the reference
machine and the diagrams are made from it, and nothing else may move a request between phases.

=================  ===============================================================================
phase              what it means
=================  ===============================================================================
new                has not arrived; an empty place in a table of requests
waiting            arrived, has computed nothing, holds no page
active             computes; all its pages are on the GPU, locked
suspended          computes nothing; its pages are held on GPU or host and never dropped
recompute-paused   gave every page back; will replay its prompt and all generated tokens from zero
finished           delivered, refused or cancelled; holds nothing
=================  ===============================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from stallproof.errors import StallproofError


class Phase(IntEnum):
    """Where a request stands. An adjective each."""

    NEW = 0
    WAITING = 1
    ACTIVE = 2
    SUSPENDED = 3
    RECOMPUTE_PAUSED = 4
    FINISHED = 5

    @property
    def label(self) -> str:
        """The name people see."""
        return self.name.lower().replace("_", "-")


class Event(IntEnum):
    """What can happen to a request. A verb each."""

    ARRIVE = 0
    REFUSE = 1
    ADMIT = 2
    GROW = 3
    SCHEDULE = 4
    SUSPEND = 5
    MIGRATE = 6
    RESUME = 7
    RECOMPUTE_PAUSE = 8
    FINISH = 9
    CANCEL = 10

    @property
    def label(self) -> str:
        """The name people see."""
        return self.name.lower().replace("_", "-")


class Transition(NamedTuple):
    """One row of the table: ``event`` leads from any of ``sources`` to ``target`` if ``guard`` holds."""

    event: Event
    sources: tuple[Phase, ...]
    target: Phase
    guard: str
    pages: str


_ = Phase
TRANSITIONS: tuple[Transition, ...] = (
    # event                     from                                     to                  guard            pages and tokens
    Transition(Event.ARRIVE, (_.NEW,), _.WAITING, "peak_fits_gpu", "none"),
    Transition(Event.REFUSE, (_.NEW,), _.FINISHED, "", "none; the reason is told"),
    Transition(Event.ADMIT, (_.WAITING, _.RECOMPUTE_PAUSED), _.ACTIVE, "pages_fit", "takes the GPU pages of its first chunk"),
    Transition(Event.GROW, (_.ACTIVE,), _.ACTIVE, "pages_fit", "takes GPU pages, all or nothing"),
    Transition(Event.SCHEDULE, (_.ACTIVE,), _.ACTIVE, "pages_hold_tokens", "none; its tokens are computed after the pass"),
    Transition(Event.SUSPEND, (_.ACTIVE,), _.SUSPENDED, "lower_tier", "locked pages become held; nothing is copied or freed"),
    Transition(Event.MIGRATE, (_.SUSPENDED,), _.SUSPENDED, "host_has_room", "held pages move from GPU to host"),
    Transition(Event.RESUME, (_.SUSPENDED,), _.ACTIVE, "pages_fit", "every page back on the GPU; host copies released"),
    Transition(Event.RECOMPUTE_PAUSE, (_.ACTIVE, _.SUSPENDED), _.RECOMPUTE_PAUSED, "", "every page released; replay from zero"),
    Transition(Event.FINISH, (_.ACTIVE,), _.FINISHED, "", "every page released"),
    Transition(Event.CANCEL, (_.WAITING, _.ACTIVE, _.SUSPENDED, _.RECOMPUTE_PAUSED), _.FINISHED, "", "every page of every tier released, once"),
)  # fmt: skip
"""The lifecycle: any event not listed for a phase is illegal there. From ``rules.md``, "The request's lifecycle"."""

GUARDS: dict[str, str] = {
    "peak_fits_gpu": "the pages of its longest possible length do not exceed the GPU's",
    "pages_fit": "the GPU can make all the pages available without giving anybody up",
    "pages_hold_tokens": "its GPU pages hold every token it will have computed",
    "lower_tier": "a tier below the GPU exists",
    "host_has_room": "the host has a free page for each page that moves",
}
"""What each guard of the table says."""


class IllegalTransition(StallproofError):
    """The lifecycle does not allow ``event`` in ``phase``. Raised before anything is changed.

    ``request`` is the request's row in its table; ``phase`` and ``event`` may be plain codes.
    """

    def __init__(self, request: int, phase: int, event: int) -> None:
        self.request, self.phase, self.event = request, Phase(phase), Event(event)
        super().__init__(request, phase, event)

    def __str__(self) -> str:
        return (
            f"request {self.request} is {self.phase.label}: the lifecycle does not allow the event '{self.event.label}'"
        )


class ReferenceRequest:
    """One request as a ``transitions`` machine built from :data:`TRANSITIONS`: the reference implementation.

    ``happen(event, guard)`` tries one event, with the truth of its row's guard. It returns the
    phase reached, or raises IllegalTransition and changes nothing. A guard that does not hold
    leaves the phase as it is.
    """

    state: str
    trigger: Callable[..., bool]

    def __init__(self, number: int = 0) -> None:
        from transitions import Machine

        self.number = number
        self.machine = Machine(
            model=self,
            states=[phase.name for phase in Phase],
            initial=Phase.NEW.name,
            transitions=[
                {
                    "trigger": row.event.name,
                    "source": [source.name for source in row.sources],
                    "dest": row.target.name,
                    "conditions": ["guard_holds"] if row.guard else [],
                }
                for row in TRANSITIONS
            ],
            auto_transitions=False,
        )

    def guard_holds(self, guard: bool) -> bool:
        """The truth of the row's guard, as the caller found it."""
        return guard

    @property
    def phase(self) -> Phase:
        """The phase the machine is in."""
        return Phase[self.state]

    def happen(self, event: Event, guard: bool = True) -> Phase:
        """Try ``event``; see the class."""
        from transitions import MachineError

        try:
            self.trigger(event.name, guard=guard)
        except MachineError:
            raise IllegalTransition(self.number, self.phase, event) from None
        return self.phase
