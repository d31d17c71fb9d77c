"""For tests of schedulers: a Hypothesis state machine to subclass, and a pytest plug-in.

``LifecycleMachine`` needs the package ``hypothesis``, and is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stallproof.testing.machine import LifecycleMachine, Look

__all__ = ["LifecycleMachine", "Look"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from stallproof.testing import machine

    return getattr(machine, name)
