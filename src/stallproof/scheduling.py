"""One scheduling pass: the rules of ``rules.md``, a step each, then the tokens it scheduled.

The pass walks the requests in arrival order, decodes first (generation phase), then prefills
(context phase). It is deterministic: it reads only its arguments. The policy's rules choose victims
and say when to stop; the ladders around them are here.
"""

from __future__ import annotations

from stallproof.compiled import compiled_in_place
from stallproof.plan import SELF, Plan, Rule, clear, perform
from stallproof.policies.interface import Rules
from stallproof.requests import ACTIVE, NOBODY, RECOMPUTE_PAUSED, SUSPENDED, WAITING, Requests, live
from stallproof.tiers import (
    ADMIT,
    FINISH,
    GPU,
    GROW,
    MIGRATE,
    RECOMPUTE_PAUSE,
    RESUME,
    SCHEDULE,
    SUSPEND,
    Tiers,
    available,
    missing_pages,
    oldest_suspension,
)

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


@compiled_in_place
def schedule(requests: Requests, tiers: Tiers, rules: Rules, chunk_tokens: int, plan: Plan) -> None:
    """Decide one pass: change phases and page counts, and write down every decision in ``plan``.

    ``chunk_tokens``: the most prefill tokens of one request in one pass, at least 1. Afterwards
    call :func:`compute` once the scheduled tokens have been computed.
    """
    clear(plan)
    generation_phase(requests, tiers, rules, plan)
    context_phase(requests, tiers, rules, chunk_tokens, plan)


@compiled_in_place
def generation_phase(requests: Requests, tiers: Tiers, rules: Rules, plan: Plan) -> None:
    """H1-H5: every decode, in arrival order, up to an end that moves to each request it suspends."""
    end = len(requests.phase)
    r = 0
    while r < end:
        if wants_to_decode(requests, plan, r):
            if fits(requests, tiers, rules, plan, r, 1):  # H1
                plan.fired[H1_DECODE_FITS] += 1
            else:
                way_made, end = make_way_for_decode(requests, tiers, rules, plan, r, end)  # H2, H3
                if not way_made:
                    suspend_itself(requests, tiers, rules, plan, r)  # H4
                    plan.fired[H5_STOP] += 1
                    return  # H5
        r += 1


@compiled_in_place
def context_phase(requests: Requests, tiers: Tiers, rules: Rules, chunk_tokens: int, plan: Plan) -> None:
    """K1-K7: every prefill, in arrival order, a chunk each; one victim at most if the policy keeps its pages."""
    for r in range(len(requests.phase)):
        if not wants_to_prefill(requests, plan, r):
            continue
        tokens = min(chunk_tokens, requests.tokens[r] - requests.computed[r])
        if fits(requests, tiers, rules, plan, r, tokens):
            plan.fired[CHUNK_FITS] += 1
            continue
        victim = victim_for_prefill(requests, tiers, rules, plan, r, tokens)
        if victim != NOBODY:
            recompute_pause(requests, tiers, plan, victim, r, K3_PAUSE_ACTIVE, K4_PAUSE_SUSPENDED, K4_PROMOTE)
            if rules.keeps_freed_pages(requests, tiers, plan, r, tokens):  # K6, R5
                plan.fired[K6_KEEP_FREED_PAGES] += 1
                return
        else:
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
def fits(requests: Requests, tiers: Tiers, rules: Rules, plan: Plan, r: int, tokens: int) -> bool:
    """H1: resume if suspended, then take the pages of ``tokens`` more tokens; each step all or nothing.

    Fits: ``r`` is scheduled. Does not: a resume that succeeded stays.
    """
    phase = requests.phase[r]
    if phase == SUSPENDED:
        if not rules.worth_resuming(requests, tiers, plan, r, tokens):
            return False
        if not make_room(requests, tiers, plan, r, requests.host_pages[r]):
            return False
        perform(requests, tiers, plan, RESUME, r, requests.host_pages[r], SELF)
    pages = missing_pages(requests, tiers, r, tokens)
    if not make_room(requests, tiers, plan, r, pages):
        return False
    if phase == WAITING or phase == RECOMPUTE_PAUSED:
        perform(requests, tiers, plan, ADMIT, r, pages, SELF)
    elif pages > 0:
        perform(requests, tiers, plan, GROW, r, pages, SELF)
    perform(requests, tiers, plan, SCHEDULE, r, tokens, SELF)
    return True


@compiled_in_place
def make_room(requests: Requests, tiers: Tiers, plan: Plan, r: int, pages: int) -> bool:
    """Free ``pages`` GPU pages for ``r`` by migrating held pages, oldest suspension first; or move nothing at all."""
    if pages > available(requests, tiers, r):
        return False
    while tiers.free[GPU] < pages:
        holder = oldest_suspension(requests, r)
        moved = min(requests.gpu_pages[holder], pages - tiers.free[GPU])
        perform(requests, tiers, plan, MIGRATE, holder, moved, r)
    return True


@compiled_in_place
def make_way_for_decode(
    requests: Requests, tiers: Tiers, rules: Rules, plan: Plan, r: int, end: int
) -> tuple[bool, int]:
    """H2 and H3: suspend, and then recompute-pause, newer requests until decode ``r`` fits. Returns (fits, end)."""
    if not rules.worth_giving_up(requests, tiers, plan, r, 1):
        plan.fired[R7_NOBODY_IN_VAIN] += 1
        return False, end
    way_made, end = suspend_until_decode_fits(requests, tiers, rules, plan, r, end)
    while not way_made:
        victim = rules.victim_to_pause_for_decode(requests, tiers, plan, r, 1)
        if victim == NOBODY:
            return False, end
        recompute_pause(requests, tiers, plan, victim, r, H3_PAUSE_ACTIVE, H3_PAUSE_SUSPENDED, H3_PROMOTE)
        way_made = fits(requests, tiers, rules, plan, r, 1)
        if not way_made:
            way_made, end = suspend_until_decode_fits(requests, tiers, rules, plan, r, end)
    return True, end


@compiled_in_place
def suspend_until_decode_fits(
    requests: Requests, tiers: Tiers, rules: Rules, plan: Plan, r: int, end: int
) -> tuple[bool, int]:
    """H2: suspend one request after another until decode ``r`` fits; the end moves to each. Returns (fits, end)."""
    while True:
        victim = rules.victim_to_suspend(requests, tiers, plan, r, 1)
        if victim == NOBODY:
            return False, end
        perform(requests, tiers, plan, SUSPEND, victim, 0, r)
        plan.fired[H2_SUSPEND] += 1
        end = victim
        if fits(requests, tiers, rules, plan, r, 1):
            return True, end


@compiled_in_place
def suspend_itself(requests: Requests, tiers: Tiers, rules: Rules, plan: Plan, r: int) -> None:
    """H4: a decode that found no way suspends itself, if it is active and the policy says so."""
    if requests.phase[r] == ACTIVE and rules.suspends_itself(requests, tiers, plan, r, 1):
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

    Returns the number of tokens generated. Finished rows stay, in phase finished, holding nothing.
    """
    generated = 0
    for r in range(len(requests.phase)):
        if plan.scheduled[r] > 0:
            requests.computed[r] += plan.scheduled[r]
            if requests.computed[r] == requests.tokens[r]:
                requests.tokens[r] += 1
                requests.output_left[r] -= 1
                requests.decoding[r] = 1
                generated += 1
                if requests.output_left[r] == 0:
                    perform(requests, tiers, plan, FINISH, r, 0, SELF)
    return generated
