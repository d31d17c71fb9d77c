"""A rule of admission: a request comes in only if the pages of all tokens it knows are free.

vLLM admits so (``scheduler_reserve_full_isl``, on by default in 0.32), against long prompts that are admitted for their
first chunk, fill the GPU and are given up before they end.
"""

from stallproof.policies import available, decision, missing_pages


@decision
def whole_prompt_fits(requests, tiers, plan, requester, tokens):
    """All known tokens, not only those of the first chunk, would find their pages now."""
    known = requests.tokens[requester]
    return missing_pages(requests, tiers, requester, known) <= available(requests, tiers, requester)
