"""A checked request lifecycle for LLM serving under KV-cache pressure.

Importing the package is light: a name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Bounds": "stallproof.bounds",
    "Engine": "stallproof.engine",
    "Event": "stallproof.lifecycle",
    "LifecycleModel": "stallproof.model",
    "Phase": "stallproof.lifecycle",
    "Policy": "stallproof.policies",
    "Monitor": "stallproof.monitor",
    "check": "stallproof.checking",
    "policy_named": "stallproof.policies",
}

__all__ = [*sorted(_HOME), "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'stallproof' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
