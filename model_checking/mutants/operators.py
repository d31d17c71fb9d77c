"""Mutants of a module: one small change each, made in its syntax tree.

Counting how often a rule fires (``plan.fired``) decides nothing and is left alone.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import NamedTuple

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
OPERATORS = {
    "always": "a condition holds always",
    "never": "a condition holds never: what stands behind the guard is not done",
    "answer": "a true answer is false, a false one true",
    "drop": "one operand of `and` or `or` is dropped",
    "compare": "a comparison takes or leaves its boundary, or is turned around",
    "off-by-one": "a number, or a sum, is one more",
    "skip": "a call or an assignment in place is left out, a release among them",
    "extreme": "`min` and `max` change places",
    "order": "a loop over rows goes the other way: newest and oldest change places",
}

EXTREMES = {"min": "max", "max": "min"}


class Mutant(NamedTuple):
    """One change. ``name`` says where and what; ``tree`` is the whole module with it."""

    name: str
    tree: ast.Module


class _Change(NamedTuple):
    operator: str
    node: int
    becomes: ast.AST


def mutants_of(source: str, module: str) -> list[Mutant]:
    """All mutants of a module's functions, in the order of its text. Names are unique and know no line numbers."""
    tree = ast.parse(source)
    made, seen = [], dict[str, int]()
    for function in [node for node in tree.body if isinstance(node, ast.FunctionDef)]:
        place = tree.body.index(function)
        for change in _changes(function):
            mutated = copy.deepcopy(tree)
            before = _nodes(function)[change.node]
            name = f"{module}.{function.name}: {change.operator}: {_text(before)}"
            if change.operator in ("compare", "drop"):
                name += f" -> {_text(change.becomes)}"
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > 1:
                name += f" ({seen[name]})"
            _Replacement(_nodes(mutated.body[place])[change.node], change.becomes).visit(mutated)
            made.append(Mutant(name, ast.fix_missing_locations(mutated)))
    return made


def _nodes(function: ast.AST) -> list[ast.AST]:
    return list(ast.walk(function))


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())[:100]


class _Replacement(ast.NodeTransformer):
    """Puts another node in the place of one."""

    def __init__(self, target: ast.AST, becomes: ast.AST) -> None:
        self.target, self.becomes = target, becomes

    def visit(self, node: ast.AST) -> ast.AST:
        """The tree with the other node in it."""
        if node is self.target:
            return ast.copy_location(self.becomes, node)
        return super().generic_visit(node)


def _changes(function: ast.FunctionDef) -> Iterator[_Change]:
    for number, node in enumerate(_nodes(function)):
        for operator, becomes in _of_node(node):
            yield _Change(operator, number, becomes)


def _of_node(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.If | ast.While) and not isinstance(node.test, ast.Constant):
        yield "always", _with_test(node, True)
        yield "never", _with_test(node, False)
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool):
        yield "answer", ast.Return(ast.Constant(not node.value.value))
    elif isinstance(node, ast.BoolOp):
        for k in range(len(node.values)):
            rest = node.values[:k] + node.values[k + 1 :]
            yield "drop", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.Compare):
        yield from _of_comparison(node)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield "off-by-one", ast.BinOp(node, ast.Add(), ast.Constant(1))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield from _of_call(node)
    elif isinstance(node, ast.AugAssign) and not _counts_rules(node.target):
        yield "skip", ast.Pass()
        yield "off-by-one", ast.AugAssign(node.target, node.op, ast.BinOp(node.value, ast.Add(), ast.Constant(1)))
    elif _has_only_an_effect(node):
        yield "skip", ast.Pass()


def _with_test(node: ast.If | ast.While, truth: bool) -> ast.AST:
    changed = copy.deepcopy(node)
    changed.test = ast.Constant(truth)
    return changed


def _of_comparison(node: ast.Compare) -> Iterator[tuple[str, ast.AST]]:
    for k, op in enumerate(node.ops):
        if type(op) in COMPARISONS:
            ops = [*node.ops[:k], COMPARISONS[type(op)](), *node.ops[k + 1 :]]
            yield "compare", ast.Compare(node.left, ops, node.comparators)


def _of_call(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    assert isinstance(node.func, ast.Name)
    if node.func.id in EXTREMES:
        yield "extreme", ast.Call(ast.Name(EXTREMES[node.func.id], ast.Load()), node.args, [])
    elif node.func.id == "range":
        yield "order", ast.Call(ast.Name("reversed", ast.Load()), [node], [])
        if len(node.args) > 1:
            later = ast.BinOp(node.args[0], ast.Add(), ast.Constant(1))
            yield "off-by-one", ast.Call(node.func, [later, *node.args[1:]], [])


def _has_only_an_effect(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Subscript)
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def _counts_rules(target: ast.AST) -> bool:
    return "fired" in ast.unparse(target)
