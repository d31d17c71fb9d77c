"""Is a rule of somebody's file one that may be asked? Everything that can be told before it is first asked.

Such a rule reads and changes nothing, answers with a row or with yes or no on every path, and looks at nothing
that it could not know. What a rule reads is taken from its code and from that of the functions it calls. That
it changes nothing is proved by compiling it once more for tables that are read-only.
"""

from __future__ import annotations

import dis
import inspect
import linecache
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from numba import types

from stallproof.compiled import INTERPRETED, compiled_rule, is_ours
from stallproof.errors import PolicyFileError, RuleNotCompiled
from stallproof.plan import Plan
from stallproof.policies.interface import ARGUMENTS, Policy, answers_with_a_row, function_of
from stallproof.requests import Requests
from stallproof.tiers import Tiers

UNKNOWABLE = {
    "fired": "it counts over all passes, so the answer would depend on what was asked before",
    "drafts_accepted": "it is known only once the tokens are computed",
}
"""Columns of the plan that no rule may read, and why."""

INTERFACE = "docs/write-a-policy.md lists what a rule may read and what it answers."
LOOPS = "Plain loops over rows, numbers and arrays compile."


def shown(path: str | Path) -> str:
    """A path as people gave it: relative, if it is below the working directory."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else str(path)


def place_of(function: Callable[..., Any], line: int | None = None) -> str:
    """Where a rule stands, or a line of it."""
    line = line or first_line(function)
    return f"{shown(function.__code__.co_filename)}, line {line}, in {function.__name__}"


def first_line(function: Callable[..., Any]) -> int:
    """The line of its ``def``, below the decorators."""
    line = function.__code__.co_firstlineno
    while linecache.getline(function.__code__.co_filename, line).lstrip().startswith("@"):
        line += 1
    return line


def answers_question_with_a_row(question: str) -> bool:
    """The question of the pass asks for a victim."""
    return question.startswith("victim_")


def vetted(policy: Policy) -> Policy:
    """``policy``, if all its rules may be asked; it then also says whether they look at ``output_left``.

    Raises PolicyFileError with the line, and RuleNotCompiled if the only fault is that Numba cannot compile it.
    """
    reads_output_left = policy.reads_output_left
    compiled: set[int] = set()
    for question, rule in policy.rules._asdict().items():
        function = function_of(rule)
        _require_kind(question, rule, policy)
        if is_ours(function):
            continue
        _require_arguments(function)
        for name, place in attributes_read(function):
            reads_output_left |= name == "output_left"
            if name in UNKNOWABLE:
                raise PolicyFileError(f"a rule may not read plan.{name}: {UNKNOWABLE[name]}", place, INTERFACE)
        if not INTERPRETED and id(rule) not in compiled:
            _require_compiled(rule, may_write=question == "own_pass")
            compiled.add(id(rule))
    return replace(policy, reads_output_left=reads_output_left)


def _require_kind(question: str, rule: Any, policy: Policy) -> None:
    wanted, found = answers_question_with_a_row(question), answers_with_a_row(rule)
    if found is wanted:
        return
    decorator = "@victim" if wanted else "@decision"
    if found is None:
        place = place_of(rule) if isinstance(rule, FunctionType) else policy.name
        raise PolicyFileError(
            f"{question} is {_what(rule)}, not a rule", place, f"Put {decorator} above a function, and give that."
        )
    answers = "a row, and it answers yes or no" if wanted else "yes or no, and it answers with a row"
    raise PolicyFileError(f"{question} asks for {answers}", place_of(function_of(rule)), f"Make it {decorator}.")


def _what(value: Any) -> str:
    return "a plain function" if isinstance(value, FunctionType) else repr(value)


def _require_arguments(function: Callable[..., Any]) -> None:
    try:
        inspect.signature(function).bind(*range(5))
    except TypeError:
        raise PolicyFileError(
            f"a rule takes five arguments, and it takes {inspect.signature(function)}",
            place_of(function),
            f"Write def {function.__name__}(requests, tiers, plan, requester, tokens).",
        ) from None


def attributes_read(function: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """Every attribute name that a rule, or a function outside this package that it calls, looks at, and the place."""
    waiting, seen = [function], {id(function)}
    while waiting:
        asked = waiting.pop()
        known = {**asked.__globals__, **inspect.getclosurevars(asked).nonlocals}
        for instruction in _instructions(asked.__code__):
            if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                line = instruction.positions.lineno if instruction.positions else None
                yield str(instruction.argval), place_of(asked, line)
            called = known.get(instruction.argval) if isinstance(instruction.argval, str) else None
            called = getattr(called, "py_func", function_of(called))
            if isinstance(called, FunctionType) and not is_ours(called) and id(called) not in seen:
                seen.add(id(called))
                waiting.append(called)


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)


# ---- Compilation ----------------------------------------------------------------------------------------


def _read_only(table: Any) -> Any:
    if isinstance(table, types.Array):
        return types.Array(table.dtype, table.ndim, table.layout, readonly=True)
    if isinstance(table, types.NamedUniTuple):
        return types.NamedUniTuple(_read_only(table.dtype), table.count, table.instance_class)
    if isinstance(table, types.NamedTuple):
        return types.NamedTuple([_read_only(column) for column in table.types], table.instance_class)
    return table


READ_ONLY = tuple(_read_only(argument) for argument in ARGUMENTS)


def _require_compiled(rule: Any, may_write: bool) -> None:
    function = rule.function
    try:
        answer = _answer_type(rule, ARGUMENTS if may_write else READ_ONLY)
    except Exception as error:  # Numba raises many kinds, some of them no NumbaError
        if not may_write:
            _require_no_write(rule, error)
        raise _not_compiled(function, error) from None
    row = answers_with_a_row(rule)
    if isinstance(answer, types.Integer) or (isinstance(answer, types.Boolean) and not row):
        return
    wanted = "a row or NOBODY" if row else "True or False"
    nothing = isinstance(answer, (types.Optional, types.NoneType))
    found = "on some path it answers nothing" if nothing else f"it answers with {answer}"
    raise PolicyFileError(
        f"a rule answers with {wanted} on every path, and {found}", place_of(function), f"Return {wanted}."
    )


def _answer_type(rule: Any, arguments: tuple[Any, ...]) -> Any:
    """What Numba says the rule answers with. Notes on the rule whether it makes lists or arrays."""
    try:
        return _compile(rule.function, arguments, allocates=False)
    except Exception:
        answer = _compile(rule.function, arguments, allocates=True)
        rule.allocates = True
        return answer


def _compile(function: Callable[..., Any], arguments: tuple[Any, ...], allocates: bool) -> Any:
    dispatcher: Any = compiled_rule(function, allocates)
    dispatcher.compile(arguments)
    return types.unliteral(dispatcher.overloads[arguments].signature.return_type)


def _require_no_write(rule: Any, error: Exception) -> None:
    """What compiles for tables that can be written, and not for others, writes to them."""
    try:
        _answer_type(rule, ARGUMENTS)
    except Exception:
        return
    line = line_of(rule.function, error)
    raise PolicyFileError(
        f"'{_source(rule.function, line)}' writes to a table, and a rule reads and changes nothing",
        place_of(rule.function, line),
        "Answer by what it returns, and let the pass change things.",
    ) from None


def _not_compiled(function: Callable[..., Any], error: Exception) -> PolicyFileError:
    line, why = line_of(function, error), reason(error)
    place, source = place_of(function, line), _source(function, line)
    if why.startswith("NameError"):
        return PolicyFileError(f"'{source}': {why.removeprefix('NameError: ')}", place, "Define it, or import it.")
    for table in (Requests, Tiers, Plan):
        if why.startswith("Unknown attribute") and f"of type {table.__name__}(" in why:
            what = f"'{source}': {table.__name__.lower()} has no {why.split(chr(39))[1]}"
            return PolicyFileError(what, place, f"It has: {', '.join(table._fields)}.")
    if call := re.match(r"Cannot bind .* to signature '(\(.*\)) -> .*TypeError: (.*?)\"", why):
        takes = re.sub(r": '\w+'", "", call[1])
        return PolicyFileError(f"'{source}': {call[2]}", place, f"It takes {takes}.")
    remedy = LOOPS
    if plain := re.match(r"Untyped global name '(\w+)'.*<class 'function'>", why):
        remedy = f"Put @numba.njit above def {plain[1]}."
    return RuleNotCompiled(f"'{source}' cannot be compiled by Numba: {why}", place, remedy)


def reason(error: Exception) -> str:
    """The one line of Numba's message that says what is wrong."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("Failed in nopython mode pipeline")] or [repr(error)]
    signature = next((line for line in lines[1:] if line.startswith(">>> ")), "")
    text = lines[0] + (signature.removeprefix(">>>") if lines[0].endswith("found for signature:") else "")
    return re.sub(r"\s*Raised from .* \(\d+\)$", "", text).rstrip(".")


def line_of(function: Callable[..., Any], error: Exception) -> int:
    """The line of the rule's file that Numba's message names first, which is the innermost; else the rule's first."""
    file = Path(function.__code__.co_filename)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    for path, line in re.findall(r"(?:File \"|at |Raised from )([^\"\n]+?)(?:\", line | \()(\d+)", plain):
        if Path.cwd().joinpath(path).resolve() == file.resolve():
            return int(line)
    location = getattr(error, "loc", None)
    if location is not None and Path.cwd().joinpath(location.filename).resolve() == file.resolve():
        return int(location.line)
    return first_line(function)


def _source(function: Callable[..., Any], line: int) -> str:
    return linecache.getline(function.__code__.co_filename, line).strip() or function.__name__
