"""A policy from somebody's file: ``FILE.py:NAME``.

NAME is a :class:`Policy`; or :class:`Rules`; or one rule, which then takes its place in ``resident-first``: a victim
rule chooses whom decodes and prefills recompute-pause, a decision says who is admitted. The policy is called what
was asked for, so that a trace that names it finds it again.
"""

from __future__ import annotations

import ast
import linecache
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from stallproof.compiled import INTERPRETED
from stallproof.errors import PolicyFileError
from stallproof.policies.interface import Policy, Rules, answers_with_a_row
from stallproof.policies.resident_first import RESIDENT_FIRST
from stallproof.policies.vetting import INTERFACE, place_of, vetted
from stallproof.policies.watching import Watcher


def names_a_file(name: str) -> bool:
    """``name`` is no name of a policy of ours but a place in a file."""
    return ":" in name or name.endswith(".py")


def policy_from_file(place: str) -> Policy:
    """The policy at ``FILE.py:NAME``. Raises PolicyFileError, with the line where there is one.

    Running interpreted, its rules are watched: see :mod:`stallproof.policies.watching`.
    """
    file, _, name = place.rpartition(":")
    if not file or name.endswith(".py"):
        file, name = place, ""
    source = _read(file)
    module = _run(file, source)
    found = getattr(module, name, None) if name else None
    if found is None:
        offers = _offers(module, _imported(source))
        what = f"there is no {name} in it" if name else "the file alone names no policy"
        remedy = f"Choose one of: {', '.join(f'{file}:{offer}' for offer in offers)}." if offers else _NOTHING
        raise PolicyFileError(what, file, remedy)
    policy = vetted(_policy(found, place))
    return replace(policy, rules=Watcher().watched(policy.rules)) if INTERPRETED else policy


_NOTHING = f"Define a rule, with @victim or @decision above it, or a Policy. {INTERFACE}"


def _read(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError) as error:
        why = "there is no such file" if isinstance(error, FileNotFoundError) else f"it cannot be read ({error})"
        remedy = "A policy is given as FILE.py:NAME, the file relative to the working directory."
        raise PolicyFileError(why, file, remedy) from None


def _run(file: str, source: bytes) -> ModuleType:
    """The module in ``file``, run."""
    path = Path(file).absolute()
    linecache.checkcache(str(path))  # it may have changed since it was last read
    module = ModuleType(f"stallproof-policy {path}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # for what looks a class's module up
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # a file may import its neighbours
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except SyntaxError as error:
        if error.filename == str(path):
            raise PolicyFileError(f"it is no Python: {error.msg}", f"{file}, line {error.lineno}", "Mend it.") from None
        raise _raised(file, path, error) from None
    except (Exception, SystemExit) as error:
        raise _raised(file, path, error) from None
    return module


def _raised(file: str, path: Path, error: BaseException) -> PolicyFileError:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    place = f"{file}, line {lines[-1]}" if lines else file
    return PolicyFileError(f"reading it raised {type(error).__name__}: {error}", place, "Mend it.")


def _offers(module: ModuleType, imported: set[str]) -> list[str]:
    """The names in a file that could be asked for; what it imports is not its own."""
    return [
        name
        for name, value in vars(module).items()
        if name not in imported and (isinstance(value, (Policy, Rules)) or answers_with_a_row(value) is not None)
    ]


def _imported(source: bytes) -> set[str]:
    aliases = (node.names for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.Import, ast.ImportFrom)))
    return {alias.asname or alias.name for names in aliases for alias in names}


def _policy(found: Any, place: str) -> Policy:
    if isinstance(found, Policy):
        return replace(found, name=place)
    if isinstance(found, Rules):
        return Policy(name=place, summary="rules of your own", rules=found)
    row = answers_with_a_row(found)
    if row is None:
        where = place_of(found) if isinstance(found, FunctionType) else place
        raise PolicyFileError(
            f"{place.rpartition(':')[2]} is neither a rule nor a policy",
            where,
            "Put @victim above it if it answers with a row, @decision if it answers yes or no.",
        )
    about = f": {found.__doc__.strip().splitlines()[0].rstrip('.')}" if found.__doc__ else ""
    if row:
        summary = f"resident-first with another victim{about}"
        questions = ("victim_to_pause_for_decode", "victim_to_pause_for_prefill")
        return RESIDENT_FIRST.changed(place, summary, **dict.fromkeys(questions, found))
    return RESIDENT_FIRST.changed(place, f"resident-first with a rule of admission{about}", admits=found)
