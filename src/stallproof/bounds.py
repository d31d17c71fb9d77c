"""The size of a model: how much is explored. Within these bounds a verdict is about all runs, however long."""

from __future__ import annotations

from typing import NamedTuple

from stallproof.errors import UsageError

MOST = 255
"""The largest length or page count a packed state has room for."""

MOST_PRIORITIES = 4
"""The most priorities a packed state has room for."""

MOST_LIVE_WITH_COPIES = 6
"""The most live requests of a model in which copies take time."""

MOST_DRAFT_OUTCOMES = 2**12
"""The most ways in which the drafts of one pass may turn out."""

MOST_SIZE = 2**31 - 1
"""The largest size or length outside the explorer: sums and products of a few of these are exact in an int64."""


class Bounds(NamedTuple):
    """Every size is in requests, pages or tokens, as its name says."""

    live: int = 3  # requests at once; over time there is no limit
    gpu_pages: int = 5
    host_pages: int = 2  # 0: no tier below the GPU
    page_tokens: int = 1
    chunk_tokens: int = 2  # the most prefill tokens of one request in one pass
    max_prompt: int = 3
    max_output: int = 3
    cancel: bool = True  # any live request may be cancelled at any time
    early_stop: bool = True  # any active decode may stop before its longest output
    every_output: bool = False  # requests arrive with every output length, even where early stop makes them redundant
    lookahead: int = 0  # drafts of a decode, any number of which is right
    priorities: int = 1  # each request arrives with one; 0 is served first
    pass_requests: int = 0  # the most requests that a pass schedules; 0: no limit
    pass_tokens: int = 0  # the most tokens that a pass schedules; 0: no limit
    copies: bool = False  # copies between the tiers take an unknown time, and fence their pages until they are done
    state_pages: int = 0  # pages of recurrent state that a request holds beside those of its tokens

    def checked(self) -> Bounds:
        """These bounds, or a UsageError that names the first one that makes no sense."""
        for name, least, most in (
            ("live", 1, 16),
            ("gpu_pages", 1, MOST),
            ("host_pages", 0, MOST),
            ("page_tokens", 1, MOST),
            ("chunk_tokens", 1, MOST),
            ("max_prompt", 1, MOST),
            ("max_output", 1, MOST),
            ("lookahead", 0, 3),
            ("priorities", 1, MOST_PRIORITIES),
            ("pass_requests", 0, MOST),
            ("pass_tokens", 0, MOST),
            ("state_pages", 0, MOST),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise UsageError(
                    f"{value} is out of range", f"--{name.replace('_', '-')}", f"Give a number from {least} to {most}."
                )
        if (self.lookahead + 1) ** self.live > MOST_DRAFT_OUTCOMES:
            raise UsageError(
                f"{self.live} live requests with {self.lookahead} drafts each make too many outcomes of one pass",
                "--lookahead, --live",
                "Give fewer of either.",
            )
        if 0 < self.pass_tokens <= self.lookahead:
            raise UsageError(
                f"a pass of {self.pass_tokens} tokens has no room for a decode with {self.lookahead} drafts",
                "--pass-tokens",
                f"Give at least {self.lookahead + 1}.",
            )
        if self.copies and self.live > MOST_LIVE_WITH_COPIES:
            raise UsageError(
                f"{self.live} live requests with copies in flight",
                "--live",
                f"Give at most {MOST_LIVE_WITH_COPIES}: a fair loop is searched for among all sets of copies.",
            )
        if self.max_prompt + self.max_output > MOST:
            raise UsageError(
                f"prompt and output add up to {self.max_prompt + self.max_output} tokens",
                "--max-prompt, --max-output",
                f"Keep their sum at or below {MOST}.",
            )
        return self
