"""What a policy is: a set of small rules that the pass asks, and the claims it makes.

Every rule gets the same arguments: the request table, the tiers, the plan so far, the row of the
*requester* (the request whose pages do not fit) and the tokens it wants to compute. A rule reads them and
changes nothing, but for a :func:`whole_pass`. A :func:`victim` rule answers with a row, or NOBODY; a
:func:`decision` rule answers yes or no.

A rule is compiled on its own and called through its address, so that another policy needs no new
compilation of the pass or the explorer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numba
from numba import types
from numba.core import cgutils
from numba.experimental.function_type import FunctionModel
from numba.extending import NativeValue, register_model, typeof_impl, unbox

from stallproof.bounds import Bounds
from stallproof.compiled import INTERPRETED, compiled_rule
from stallproof.plan import Plan, new_plan
from stallproof.requests import NOBODY, Requests, new_requests
from stallproof.tiers import Tiers, new_tiers

VictimRule = Callable[[Requests, Tiers, Plan, int, int], int]
DecisionRule = Callable[[Requests, Tiers, Plan, int, int], bool]


class _RuleType(types.FunctionType):
    """Numba's first-class function type; only taking it from a Python object is our own, since Numba's is slow."""


register_model(_RuleType)(FunctionModel)


class _CompiledRule:
    """A rule with its machine code's addresses; compiled when first asked for them."""

    def __init__(self, function: Callable[..., Any], rule_type: _RuleType) -> None:
        self.function = function
        self.rule_type = rule_type
        self.allocates = False
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    @cached_property
    def _dispatcher(self) -> Any:
        return compiled_rule(self.function, self.allocates)

    @cached_property
    def _code(self) -> Any:
        return self._dispatcher.get_compile_result(self.rule_type.signature)

    @cached_property
    def c_address(self) -> int:
        return int(self._code.library.get_pointer_to_function(self._code.fndesc.llvm_cfunc_wrapper_name))

    @cached_property
    def jit_address(self) -> int:
        return int(self._code.library.get_pointer_to_function(self._code.fndesc.llvm_func_name))


@typeof_impl.register(_CompiledRule)
def _typeof_rule(rule: _CompiledRule, _context: Any) -> _RuleType:
    return rule.rule_type


@unbox(_RuleType)
def _unbox_rule(rule_type: _RuleType, rule: Any, c: Any) -> NativeValue:
    value = cgutils.create_struct_proxy(rule_type)(c.context, c.builder)
    for attribute, field in (("c_address", "c_addr"), ("jit_address", "jit_addr")):
        address = c.pyapi.object_getattr_string(rule, attribute)
        setattr(value, field, c.pyapi.long_as_voidptr(address))
        c.pyapi.decref(address)
    value.py_addr = c.builder.ptrtoint(rule, c.context.get_value_type(types.voidptr))
    return NativeValue(value._getvalue())


ARGUMENTS = (
    numba.typeof(new_requests(1)),
    numba.typeof(new_tiers(1, 1, 1)),
    numba.typeof(new_plan(1)),
    types.int64,
    types.int64,
)
_VICTIM = _RuleType(types.int64(*ARGUMENTS))
_DECISION = _RuleType(types.boolean(*ARGUMENTS))


def _rule(function: Callable[..., Any], rule_type: _RuleType) -> Any:
    if not INTERPRETED:
        return _CompiledRule(function, rule_type)
    function.rule_type = rule_type  # type: ignore[attr-defined] # so that it can be told which it is
    return function


def victim(function: VictimRule) -> VictimRule:
    """A rule that answers with the row of a victim, or NOBODY."""
    return _rule(function, _VICTIM)


def decision(function: DecisionRule) -> DecisionRule:
    """A rule that answers yes or no."""
    return _rule(function, _DECISION)


def answers_with_a_row(rule: Any) -> bool | None:
    """It is a victim rule; false: a decision rule; None: no rule at all."""
    rule_type = getattr(rule, "rule_type", None)
    return None if rule_type is None else rule_type is _VICTIM


def function_of(rule: Any) -> Callable[..., Any]:
    """The plain Python function that was made a rule."""
    return getattr(rule, "function", rule)


@decision
def yes(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> bool:
    """Always."""
    return True


@decision
def no(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> bool:
    """Never."""
    return False


@victim
def nobody(requests: Requests, tiers: Tiers, plan: Plan, requester: int, tokens: int) -> int:
    """No victim."""
    return NOBODY


class Rules(NamedTuple):
    """The questions a pass asks, in the order of ``rules.md``. The requester is as in the module's text.

    ``prefills_behind_the_end`` gets the row at which the generation phase ended in place of a requester.
    """

    worth_resuming: DecisionRule  # H1: may this suspended request take its pages back now?
    worth_giving_up: DecisionRule  # R7: is anybody at all to be given up for the requester?
    victim_to_suspend: VictimRule  # H2: whom a decode suspends
    victim_to_pause_for_decode: VictimRule  # H3: whom a decode recompute-pauses
    suspends_itself: DecisionRule  # H4: does a decode that found no way suspend itself?
    victim_to_pause_for_prefill: VictimRule  # K1-K5: whom a prefill recompute-pauses
    keeps_freed_pages: DecisionRule  # K6: does the context phase end after a victim?
    lets_nobody_pass: DecisionRule  # R4: does the context phase end at this blocked request?
    waits_for_copies: DecisionRule  # R10: does a decode that found no way wait for copies in flight?
    serves_next_priority: DecisionRule  # R9: does the pass go on to the priority that starts with this request?
    admits: DecisionRule = yes  # may this request, which holds no pages, come in? If not, it is blocked
    prefills_behind_the_end: DecisionRule = yes  # does the context phase go on behind the generation phase's end?
    own_pass: DecisionRule = no  # has the policy decided the whole pass itself? See :func:`whole_pass`


def whole_pass(rule: DecisionRule) -> Rules:
    """Rules of a policy whose engine goes in another order than the ladders: ``rule`` decides the whole pass.

    It gets the chunk's tokens and the lookahead in place of requester and tokens. It alone may change things,
    through :mod:`stallproof.room` and ``perform``, and answers yes. Where its engine raises because an allocation
    failed it sets ``plan.failed``; the pass then counts as one that decided nothing. Nothing else is asked.
    """
    return Rules(
        worth_resuming=no,
        worth_giving_up=no,
        victim_to_suspend=nobody,
        victim_to_pause_for_decode=nobody,
        suspends_itself=no,
        victim_to_pause_for_prefill=nobody,
        keeps_freed_pages=no,
        lets_nobody_pass=no,
        waits_for_copies=no,
        serves_next_priority=no,
        own_pass=rule,
    )


NEVER_SUSPENDS = frozenset(
    {
        "sometimes-suspends",
        "sometimes-resumes",
        "sometimes-recompute-pauses-suspended",
        "sometimes-host-full",
        "sometimes-copies-make-room",
        "sometimes-loads",
        "sometimes-gone-while-copying",
    }
)
"""Claims that an engine which never uses a tier below the GPU does not make."""


@dataclass(frozen=True)
class Policy:
    """A named set of rules.

    Every property is checked. A policy claims them all but those in ``unclaimed``; only a claimed
    one that fails makes the verdict `violated`. ``raises``: what to do when the policy raises, for one that does.
    ``reads_output_left``: its rules look at how much a request may still generate, as an engine knows it from
    the request's limit; requests then arrive with every output length.
    """

    name: str
    summary: str
    rules: Rules
    unclaimed: frozenset[str] = frozenset()
    raises: str = ""
    reads_output_left: bool = False

    def changed(self, name: str, summary: str, **rules: Any) -> Policy:
        """This policy with some rules replaced, under a new name."""
        return replace(self, name=name, summary=summary, rules=self.rules._replace(**rules))

    @property
    def decides_whole_passes(self) -> bool:
        """The ladders are not asked."""
        return self.rules.own_pass is not no

    def told_apart(self, bounds: Bounds) -> Bounds:
        """The bounds with every output length, if the policy can tell requests apart by it."""
        return bounds._replace(every_output=bounds.every_output or self.reads_output_left)
