"""What a monitor claims of the scheduler it watches, and what it cannot know of it.

The sentences are those of the properties of the same names; a test compares them.
"""

from __future__ import annotations

from stallproof.observations import Pool

CHECKED = {
    "legal-transition": "Every operation is one the lifecycle allows, its guard true, and together they are all "
    "that happened.",
    "page-conservation": "In each tier, free pages, fenced ones and those of all requests add up to the tier, and "
    "none is negative.",
    "phase-residency": "An active request has its tokens' (and drafts') pages, all on the GPU; a suspended one "
    "anywhere; others none.",
    "lists-disjoint": "No request is on two of the lists scheduled, suspended and recompute-paused of one pass.",
    "victim-behind-requester": "Whoever is given up for another request has a lower priority, or the same and arrived "
    "after it.",
    "victim-once-per-pass": "No request is suspended twice or recompute-paused twice in one pass, nor suspended once "
    "recompute-paused.",
    "victim-makes-room": "Every recompute-pause makes at least one more GPU page available to its requester.",
    "no-suspension-without-lower-tier": "Without a tier below the GPU nobody is suspended.",
    "tokens-preserved": "No known token is lost: they never get fewer, and with those still possible they add up "
    "to the same.",
    "replay-from-zero": "A request that holds no pages has computed nothing, so its replay starts at position 0.",
    "scheduled-has-pages": "A scheduled request is on the GPU with a page for every token it will have computed.",
    "infeasible-refused": "No live request has a peak that exceeds the GPU's pages: such a request is refused at "
    "arrival.",
    "terminal-releases-once": "Whoever finishes or is cancelled does so once, and has no page of any tier left.",
    "no-dead-end": "A pass over live requests always decides something.",
    "no-livelock": "Busy passes never go round in circles without computing a token.",
}

_CONSIDERED = "it is about what the pass considered, and only what it decided is observed"
_FUTURES = "it is about all futures: explore the policy with `stallproof check`"

UNCHECKED = {
    "active-victim-first": _CONSIDERED,
    "only-when-needed": _CONSIDERED,
    "decode-not-suspended-for-context": _CONSIDERED,
    "no-priority-inversion": "priorities are not observed",
    "copy-fence": "single copies are not observed",
    "resume-complete": "single copies are not observed",
    "victim-not-copying": "single copies are not observed",
    "limits-kept": "the limits of a pass are not observed",
    "victim-unfinished": "which token is a request's last is not observed",
    "oldest-finishes": _FUTURES,
    "host-full-has-a-way-out": _FUTURES,
}


def unchecked(pool: Pool, unclaimed: frozenset[str]) -> dict[str, str]:
    """What is not checked of an engine that tells this much of its memory, and why."""
    found = dict(UNCHECKED)
    if pool.gpu_pages is None:
        reason = "the size of the GPU's pool is not told"
        found |= dict.fromkeys(("page-conservation", "infeasible-refused", "victim-makes-room"), reason)
    if pool.page_tokens is None:
        reason = "the tokens of a page are not told"
        found |= dict.fromkeys(("infeasible-refused", "scheduled-has-pages"), reason)
    if pool.host_pages is None:
        reason = "whether there is a host tier is not told"
        found |= dict.fromkeys(("no-suspension-without-lower-tier", "victim-makes-room"), reason)
    return found | dict.fromkeys(sorted(unclaimed), "the scheduler does not claim it")
