"""One scheduling pass: the rules of ``rules.md``, a step each, then the tokens it scheduled.

The pass walks the requests in their order, decodes first (generation phase), then prefills (context
phase); with priorities, both phases for one priority after another. It is deterministic: it reads
only its arguments. The policy's rules choose victims and say when to stop; the ladders around them
are here. A policy whose engine goes in another order decides the whole pass itself.
"""

from __future__ import annotations

from stallproof.compiled import compiled_in_place
from stallproof.limits import Limits, tokens_wanted
from stallproof.plan import REQUESTS, SELF, TOKENS, Plan, Rule, clear, perform
from stallproof.policies.interface import Rules
from stallproof.requests import ACTIVE, NOBODY, SUSPENDED, Requests, live, require_row
from stallproof.room import COPIES_MAKE_ROOM, FITS, LACKS_PAGES, LOADS, come_back, serve, waits
from stallproof.tiers import FINISH, RECOMPUTE_PAUSE, SUSPEND, Tiers, copies_in_flight

H1_DECODE_FITS = int(Rule.H1_DECODE_FITS)
H2_SUSPEND = int(Rule.H2_SUSPEND_NEWEST_ACTIVE)
H3_PAUSE_ACTIVE, H3_PAUSE_SUSPENDED, H3_PROMOTE = (
    int(Rule.H3_PAUSE_ACTIVE),
    int(Rule.H3_PAUSE_SUSPENDED),
    int(Rule.H3_PROMOTE),
)
H4_SUSPEND_ITSELF, H5_STOP = int(Rule.H4_SUSPEND_ITSELF), int(Rule.H5_STOP)
CHUNK_FITS = int(Rule.CHUNK_FITS)
K3_PAUSE_ACTIVE, K4_PAUSE_SUSPENDED, K4_PROMOTE = (
    int(Rule.K3_PAUSE_ACTIVE),
    int(Rule.K4_PAUSE_SUSPENDED),
    int(Rule.K4_PROMOTE),
)
K5_WAIT, K6_KEEP_FREED_PAGES = int(Rule.K5_WAIT), int(Rule.K6_KEEP_FREED_PAGES)
R4_NO_BYPASS, R7_NOBODY_IN_VAIN = int(Rule.R4_NO_BYPASS), int(Rule.R7_NOBODY_IN_VAIN)
R10_COPIES_MAKE_ROOM, R10_LOADS = int(Rule.R10_COPIES_MAKE_ROOM), int(Rule.R10_LOADS)
R9_NEXT_PRIORITY_WAITS, LIMIT_REACHED = int(Rule.R9_NEXT_PRIORITY_WAITS), int(Rule.LIMIT_REACHED)


@compiled_in_place
def schedule(requests: Requests, tiers: Tiers, rules: Rules, limits: Limits, plan: Plan) -> None:
    """Decide one pass: change phases and page counts, and write down every decision in ``plan``.

    Afterwards call :func:`compute` once the scheduled tokens have been computed.
    """
    clear(plan, limits)
    if rules.own_pass(requests, tiers, plan, limits.chunk_tokens, limits.lookahead):
        return
    first = 0
    while first < len(requests.phase):
        end = end_of_priority(requests, first)
        outcome, reached = generation_phase(requests, tiers, rules, limits, plan, first, end)
        if outcome == COPIES_MAKE_ROOM:  # R10
            return
        if reached < end and not rules.prefills_behind_the_end(requests, tiers, plan, reached, 0):
            context_phase(requests, tiers, rules, limits, plan, first, reached)
        else:
            context_phase(requests, tiers, rules, limits, plan, first, end)
        if end < len(requests.phase) and not rules.serves_next_priority(requests, tiers, plan, end, 0):  # R9
            plan.fired[R9_NEXT_PRIORITY_WAITS] += 1
            return
        first = end


@compiled_in_place
def end_of_priority(requests: Requests, first: int) -> int:
    """The first row of a lower priority than that of row ``first``, or the end of the table."""
    r = first + 1
    while r < len(requests.phase) and requests.priority[r] <= requests.priority[first]:
        r += 1
    return r


@compiled_in_place
def generation_phase(
    requests: Requests, tiers: Tiers, rules: Rules, limits: Limits, plan: Plan, first: int, end: int
) -> tuple[int, int]:
    """H1-H5: every decode of the rows from ``first`` to an end that moves to each request it suspends.

    Returns how the last attempt ended, and the row it went up to. If copies make room for the last
    one tried, nobody behind it may take pages (R10).
    """
    outcome = FITS
    r = first
    while r < end:
        if wants_to_decode(requests, plan, r):
            tokens = tokens_wanted(requests, limits, r, plan.left[TOKENS])
            if plan.left[REQUESTS] == 0 or plan.left[TOKENS] < tokens:
                plan.fired[LIMIT_REACHED] += 1
                return FITS, r
            outcome = try_to_schedule(requests, tiers, rules, plan, r, tokens)  # H1
            if outcome == FITS:
                plan.fired[H1_DECODE_FITS] += 1
            if outcome == LACKS_PAGES:
                outcome, end = make_way_for_decode(requests, tiers, rules, plan, r, tokens, end)  # H2, H3
            if outcome == LACKS_PAGES and copies_in_flight(tiers):
                if rules.waits_for_copies(requests, tiers, plan, r, tokens):  # R10
                    outcome = COPIES_MAKE_ROOM
            if outcome == LACKS_PAGES:
                suspend_itself(requests, tiers, rules, plan, r, tokens)  # H4
                plan.fired[H5_STOP] += 1
                return LACKS_PAGES, r  # H5
            if outcome == COPIES_MAKE_ROOM:
                plan.fired[R10_COPIES_MAKE_ROOM] += 1
                return COPIES_MAKE_ROOM, r  # R10
        r += 1
    return outcome, end


@compiled_in_place
def context_phase(
    requests: Requests, tiers: Tiers, rules: Rules, limits: Limits, plan: Plan, first: int, end: int
) -> None:
    """K1-K7: every prefill of the rows, a chunk each; one victim at most if the policy keeps its pages."""
    for r in range(first, end):
        if not wants_to_prefill(requests, plan, r):
            continue
        tokens = tokens_wanted(requests, limits, r, plan.left[TOKENS])
        if plan.left[REQUESTS] == 0 or tokens == 0:
            plan.fired[LIMIT_REACHED] += 1
            return
        if not waits(requests, r) or rules.admits(requests, tiers, plan, r, tokens):
            outcome = try_to_schedule(requests, tiers, rules, plan, r, tokens)
            if outcome == COPIES_MAKE_ROOM:
                plan.fired[R10_COPIES_MAKE_ROOM] += 1
                return  # R10
            if outcome != LACKS_PAGES:
                plan.fired[CHUNK_FITS] += int(outcome == FITS)
                continue
            victim = victim_for_prefill(requests, tiers, rules, plan, r, tokens)
            if victim != NOBODY:
                recompute_pause(requests, tiers, plan, victim, r, K3_PAUSE_ACTIVE, K4_PAUSE_SUSPENDED, K4_PROMOTE)
                if rules.keeps_freed_pages(requests, tiers, plan, r, tokens):  # K6, R5
                    plan.fired[K6_KEEP_FREED_PAGES] += 1
                    return
                continue
        plan.fired[K5_WAIT] += 1
        if rules.lets_nobody_pass(requests, tiers, plan, r, tokens):  # R4
            plan.fired[R4_NO_BYPASS] += 1
            return


@compiled_in_place
def wants_to_decode(requests: Requests, plan: Plan, r: int) -> bool:
    """Is a decode that this pass has neither scheduled nor given up."""
    return live(requests, r) and requests.decoding[r] == 1 and not plan.given_up[r]


@compiled_in_place
def wants_to_prefill(requests: Requests, plan: Plan, r: int) -> bool:
    """Has prompt or replay tokens to compute, and this pass has not given it up."""
    return live(requests, r) and requests.decoding[r] == 0 and not plan.given_up[r]


@compiled_in_place
def try_to_schedule(requests: Requests, tiers: Tiers, rules: Rules, plan: Plan, r: int, tokens: int) -> int:
    """H1: resume if suspended, then take the pages of ``tokens`` more tokens; each step all or nothing.

    If all went well ``r`` is scheduled. If not, a resume that succeeded stays. Returns how it ended.
    """
    if requests.copying[r] > 0:  # R10
        plan.fired[R10_LOADS] += 1
        return LOADS
    if requests.phase[r] == SUSPENDED:
        if not rules.worth_resuming(requests, tiers, plan, r, tokens):
            return LACKS_PAGES
        outcome = come_back(requests, tiers, plan, r)
        if outcome != FITS:
            return outcome
    return serve(requests, tiers, plan, r, tokens)


@compiled_in_place
def make_way_for_decode(
    requests: Requests, tiers: Tiers, rules: Rules, plan: Plan, r: int, tokens: int, end: int
) -> tuple[int, int]:
    """H2 and H3: suspend, and then recompute-pause, newer requests until decode ``r`` fits. Returns (outcome, end)."""
    if not rules.worth_giving_up(requests, tiers, plan, r, tokens):
        plan.fired[R7_NOBODY_IN_VAIN] += 1
        return LACKS_PAGES, end
    outcome, end = suspend_until_decode_fits(requests, tiers, rules, plan, r, tokens, end)
    while outcome == LACKS_PAGES:
        victim = rules.victim_to_pause_for_decode(requests, tiers, plan, r, tokens)
        if victim == NOBODY:
            return LACKS_PAGES, end
        recompute_pause(requests, tiers, plan, victim, r, H3_PAUSE_ACTIVE, H3_PAUSE_SUSPENDED, H3_PROMOTE)
        outcome = try_to_schedule(requests, tiers, rules, plan, r, tokens)
        if outcome == LACKS_PAGES:
            outcome, end = suspend_until_decode_fits(requests, tiers, rules, plan, r, tokens, end)
    return outcome, end


@compiled_in_place
def suspend_until_decode_fits(
    requests: Requests, tiers: Tiers, rules: Rules, plan: Plan, r: int, tokens: int, end: int
) -> tuple[int, int]:
    """H2: suspend one request after another until decode ``r`` fits; the end moves to each. Returns (outcome, end)."""
    while True:
        victim = rules.victim_to_suspend(requests, tiers, plan, r, tokens)
        if victim == NOBODY:
            return LACKS_PAGES, end
        perform(requests, tiers, plan, SUSPEND, victim, 0, r)
        plan.fired[H2_SUSPEND] += 1
        end = min(end, victim)
        outcome = try_to_schedule(requests, tiers, rules, plan, r, tokens)
        if outcome != LACKS_PAGES:
            return outcome, end


@compiled_in_place
def suspend_itself(requests: Requests, tiers: Tiers, rules: Rules, plan: Plan, r: int, tokens: int) -> None:
    """H4: a decode that found no way suspends itself, if it is active and the policy says so."""
    if requests.phase[r] == ACTIVE and rules.suspends_itself(requests, tiers, plan, r, tokens):
        perform(requests, tiers, plan, SUSPEND, r, 0, SELF)
        plan.fired[H4_SUSPEND_ITSELF] += 1


@compiled_in_place
def victim_for_prefill(requests: Requests, tiers: Tiers, rules: Rules, plan: Plan, r: int, tokens: int) -> int:
    """K1-K5 and R7: whom prefill ``r`` recompute-pauses, or NOBODY. K7: the context phase suspends nobody."""
    if not rules.worth_giving_up(requests, tiers, plan, r, tokens):
        plan.fired[R7_NOBODY_IN_VAIN] += 1
        return NOBODY
    return rules.victim_to_pause_for_prefill(requests, tiers, plan, r, tokens)


@compiled_in_place
def recompute_pause(
    requests: Requests,
    tiers: Tiers,
    plan: Plan,
    victim: int,
    requester: int,
    rule_if_active: int,
    rule_if_suspended: int,
    rule_if_promoted: int,
) -> None:
    """Recompute-pause ``victim``. One that this pass suspended is promoted: it leaves the suspended list (R2)."""
    require_row(requests, victim)
    if plan.given_up[victim]:
        plan.fired[rule_if_promoted] += 1
    elif requests.phase[victim] == ACTIVE:
        plan.fired[rule_if_active] += 1
    else:
        plan.fired[rule_if_suspended] += 1
    perform(requests, tiers, plan, RECOMPUTE_PAUSE, victim, 0, requester)


@compiled_in_place
def compute(requests: Requests, tiers: Tiers, plan: Plan) -> int:
    """The forward step's effect: scheduled tokens are computed, a complete request yields a token, a done one finishes.

    A decode also yields a token for each of its drafts that was right. Returns the number of tokens
    generated. Finished rows stay, in phase finished, holding nothing.
    """
    generated = 0
    for r in range(len(requests.phase)):
        if plan.scheduled[r] > 0:
            yields = 0
            if requests.decoding[r]:
                yields = min(1 + plan.drafts_accepted[r], requests.output_left[r])
                requests.computed[r] += yields
            else:
                requests.computed[r] += plan.scheduled[r]
                if requests.computed[r] == requests.tokens[r]:
                    yields = 1
                    requests.decoding[r] = 1
            requests.tokens[r] += yields
            requests.output_left[r] -= yields
            generated += yields
            if yields > 0 and requests.output_left[r] == 0:
                perform(requests, tiers, plan, FINISH, r, 0, SELF)
    return generated
