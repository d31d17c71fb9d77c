"""The defect shelf: what went wrong in public, each one rule away from what is right, each known to break a property.

A file a defect: a ``POLICY`` with one rule switched back, or ``REPLACED``, functions of the shipped code that the
defect has otherwise (see :mod:`model_checking.variants`), or two ``ranks``. What is right is ``resident-first``, or
the file's ``GOOD_POLICY`` with ``GOOD`` replaced, or its ``good_ranks``. ``eager_resume`` is no defect: it breaks nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from stallproof.bounds import Bounds


class Defect(NamedTuple):
    """One row of the shelf. The file has the same name.

    ``breaks``: the property that fails, within ``bounds``, and ``steps`` is the length of the shortest run that
    shows it, a lasso's stem and loop together; or the worst case, of which ``steps`` is then the exact value.
    ``scenario``: its number in ``docs/defects.md``.
    """

    name: str
    wrong: str
    references: tuple[str, ...]
    breaks: str
    bounds: Bounds
    steps: int
    scenario: str = ""


def github(*places: str) -> tuple[str, ...]:
    """Addresses of pull requests and issues."""
    return tuple(f"https://github.com/{place}" for place in places)


def small(
    live: int,
    gpu: int,
    host: int,
    page: int,
    chunk: int,
    prompt: int,
    output: int,
    copies: bool = False,
    drafts: int = 0,
) -> Bounds:
    """Bounds in one line."""
    return Bounds(live, gpu, host, page, chunk, prompt, output, copies=copies, lookahead=drafts)


HELIX = github("NVIDIA/TensorRT-LLM/pull/21455")
OURS: tuple[str, ...] = ()
"""No public report: found by exploring."""

# fmt: off
SHELF: tuple[Defect, ...] = (
    # ---- the history of a pull request, and its neighbours
    Defect("context-ignores-suspended", "a prefill gives up active requests only (K4 missing)", HELIX, "no-dead-end", small(2, 3, 1, 1, 1, 2, 3), 11, "A1"),
    Defect("given-up-twice", "a prefill picks whom this pass has given up already (K2 missing)", HELIX, "victim-once-per-pass", small(4, 4, 0, 1, 1, 1, 2), 10, "A2"),
    Defect("suspended-before-active", "the newest victim, active or suspended alike (K3 and K4 merged)", HELIX, "active-victim-first", small(3, 4, 2, 1, 1, 2, 4), 15, "A3"),
    Defect("no-fallback-on-resume", "a suspended prefill that cannot resume waits; others pass it (R4 off)", HELIX, "no-dead-end", small(3, 5, 1, 1, 2, 4, 3), 14, "A4"),
    Defect("host-resident-victim", "victims are chosen without asking where their pages are (R1, R7 missing)", HELIX, "victim-makes-room", small(3, 3, 1, 1, 1, 1, 2), 5, "A5"),
    Defect("suspend-without-lower-tier", "a GPU-only pool suspends too (H2 without its condition)", github("NVIDIA/TensorRT-LLM/pull/13488"), "no-suspension-without-lower-tier", small(2, 2, 0, 1, 1, 1, 2), 4, "A6"),
    Defect("freed-pages-stolen", "pages freed for one request go to the next (R5, K6 missing)", HELIX, "oldest-finishes", small(3, 2, 0, 1, 1, 1, 2), 9, "A7"),
    Defect("tentative-claim-kept", "a first chunk that does not fit keeps the pages it could get", github("NVIDIA/TensorRT-LLM/pull/19202"), "phase-residency", small(2, 2, 0, 1, 2, 2, 1), 3, "A8"),
    Defect("infeasible-accepted", "no feasibility check at arrival", HELIX, "no-dead-end", small(1, 1, 0, 1, 1, 1, 2), 3, "A9"),
    Defect("self-suspend-loop", "who resumes in vain suspends itself, and is spared for it (R2, R8 missing)", HELIX, "no-livelock", small(2, 4, 1, 1, 2, 4, 2), 5, "A10"),
    Defect("shielded-by-newer-decode", "a running decode shields everybody from a prefill (K1)", HELIX, "no-dead-end", small(2, 2, 0, 1, 1, 1, 2), 7),
    Defect("bypass", "newer requests pass a blocked one (R4 missing)", HELIX, "oldest-finishes", small(3, 3, 0, 1, 2, 1, 2), 9),
    Defect("context-suspends-decode", "a prefill suspends its victim (K7 broken)", HELIX, "decode-not-suspended-for-context", small(3, 3, 1, 2, 1, 2, 4), 24),
    Defect("finalising-victim", "a request that has generated its last token is a victim", github("NVIDIA/TensorRT-LLM/pull/15252"), "victim-unfinished", small(2, 2, 0, 1, 1, 2, 1), 4),
    Defect("unequal-quotas", "each rank sizes its own host tier", github("NVIDIA/TensorRT-LLM/pull/17380"), "ranks-agree", small(2, 3, 2, 1, 1, 2, 3), 6),
    Defect("replay-truncated", "a replay drops the newest generated token", HELIX, "tokens-preserved", small(2, 2, 0, 1, 1, 1, 2), 4),
    Defect("replay-not-from-zero", "a replay starts where the request was", HELIX, "replay-from-zero", small(2, 2, 0, 1, 1, 1, 2), 4),
    # ---- failures of other engines
    Defect("reservation-without-lookahead", "pages are reserved without those of drafts", github("vllm-project/vllm/pull/57104"), "no-dead-end", small(2, 2, 0, 2, 1, 1, 2, drafts=1), 4),
    Defect("infeasible-suspended", "a swapped-out request that can never return is told to wait", github("vllm-project/vllm/pull/4557"), "no-dead-end", small(1, 4, 4, 1, 3, 3, 3), 5),
    Defect("stale-running-list", "the running list of before the pass is restored after it", github("HabanaAI/vllm-fork/pull/2247"), "phase-residency", small(2, 2, 1, 1, 1, 1, 2), 4),
    Defect("next-chunk-admission", "a prompt is admitted as soon as its next chunk fits", github("vllm-project/vllm/pull/21809", "vllm-project/vllm/issues/25538", "vllm-project/vllm/pull/21793", "vllm-project/vllm/issues/18115"), "preemptions_of_one_request", small(2, 8, 0, 1, 2, 6, 4), 2),
    Defect("fenced-victim", "a request whose pages are being copied is a victim", github("vllm-project/vllm/issues/49674", "vllm-project/vllm/pull/49675"), "victim-not-copying", small(3, 3, 1, 2, 1, 1, 3, copies=True), 11),
    Defect("scheduled-victim", "a request that this pass has scheduled is a victim", github("vllm-project/vllm/issues/23347", "vllm-project/vllm/pull/23713", "vllm-project/vllm/pull/23346"), "lists-disjoint", small(3, 3, 0, 2, 1, 2, 2), 11),
    Defect("double-release", "a request releases its pages before it leaves the running list", github("sgl-project/sglang/pull/18694", "sgl-project/sglang/issues/17797", "sgl-project/sglang/issues/28702"), "page-conservation", small(3, 3, 0, 1, 1, 2, 1), 5),
    Defect("abort-forgets-host-pages", "a cancelled request keeps its host pages", github("sgl-project/sglang/pull/18705", "sgl-project/sglang/issues/18701"), "terminal-releases-once", small(2, 2, 1, 1, 1, 1, 2), 5),
    Defect("fence-dropped", "pages that a copy reads are free when their request goes", github("vllm-project/vllm/issues/52360"), "copy-fence", small(2, 2, 1, 1, 1, 1, 2, copies=True), 5),
    Defect("resume-during-copy", "a request resumes while its copy to the host is in flight", github("vllm-project/vllm/issues/46014", "vllm-project/vllm/pull/46139", "vllm-project/vllm/pull/46258"), "copy-fence", small(2, 2, 1, 1, 1, 1, 2, copies=True), 6),
    Defect("full-host-ignored", "a full host counts as success: pages leave without a copy", github("sgl-project/sglang/pull/27108", "sgl-project/sglang/pull/28468"), "phase-residency", small(2, 3, 1, 1, 1, 2, 3), 6),
    Defect("ties-by-address", "ties are broken by addresses, which differ by rank", github("lightseekorg/tokenspeed/pull/248"), "ranks-agree", small(4, 4, 3, 1, 1, 2, 4)._replace(cancel=False), 11),
    # ---- ours
    Defect("no-promotion", "whom this pass suspended, it cannot recompute-pause (R2 missing)", OURS, "oldest-finishes", small(3, 2, 1, 2, 2, 2, 2), 8),
    Defect("bypass-of-waiting", "newer requests pass a blocked one that has not started (R4 as worded)", OURS, "oldest-finishes", small(3, 3, 0, 1, 2, 1, 2), 9),
    Defect("victims-in-vain", "victims are taken although all together are too few (R7 missing)", OURS, "only-when-needed", small(3, 3, 1, 2, 1, 1, 4), 7),
    Defect("priority-inversion", "the next priority is served though one above it waits (R9 missing)", OURS, "no-priority-inversion", small(3, 2, 0, 1, 1, 1, 2)._replace(priorities=2), 5),
    Defect("impatient-self-suspension", "a decode that finds no way does not wait for copies (R10 missing)", OURS, "no-livelock", small(3, 2, 2, 2, 1, 1, 3, copies=True), 16),
    Defect("state-forgotten", "no pages are reserved for recurrent state", OURS, "legal-transition", small(1, 2, 0, 1, 1, 1, 1)._replace(state_pages=1), 2),
    Defect("completions-by-rank", "each rank plans with the completions it sees itself", OURS, "ranks-agree", small(2, 2, 1, 1, 1, 1, 2, copies=True), 6),
)
# fmt: on
