"""Stamps: what is kept of a token when contents are checked, different for every token there can be.

A stamp is bit fields times an odd number, modulo 2**64. From the highest bit::

    4 bits TAG | 20 bits request | 16 bits generation | 24 bits position

The generation is how often the request was recompute-paused. An odd number has an inverse, so different
fields have different stamps, and no stamp is 0 since the fields are not. Hence a token that was never
written, stands at another position, belongs to another request, or is left over from before a recompute-pause
is always seen. Stamps of neighbouring positions differ by MULTIPLIER, so those of a page are one addition.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from stallproof.errors import UsageError
from stallproof.pages.manager import Integers, PageManager, ranges
from stallproof.pages.pools import Int64s

REQUEST_BITS, GENERATION_BITS, POSITION_BITS = 20, 16, 24
TAG = 0b0101
MULTIPLIER = 0x1E3779B97F4A7C15
"""Odd, and as an int64 positive. Any odd number would do; a large one spreads the fields over all bits."""

_INVERSE = pow(MULTIPLIER, -1, 2**64)
_GENERATION_AT = POSITION_BITS
_REQUEST_AT = POSITION_BITS + GENERATION_BITS
_TAG_AT = REQUEST_BITS + _REQUEST_AT


class Stamp(NamedTuple):
    """What a stamp says."""

    request: int
    position: int
    generation: int

    def __str__(self) -> str:
        return f"request {self.request}, token {self.position}, generation {self.generation}"


def stamp(request: torch.Tensor, position: torch.Tensor, generation: torch.Tensor) -> torch.Tensor:
    """Stamps of tokens: int64 of the broadcast shape of the arguments, which are int64.

    Different for different tokens as long as request < 2**20, position < 2**24, generation < 2**16.
    """
    fields = (request << _REQUEST_AT) + (generation << _GENERATION_AT) + position + (TAG << _TAG_AT)
    return fields * MULTIPLIER


def decode(value: int) -> Stamp | None:
    """What the stamp ``value`` (an int64) says; None if it is none, as 0 is."""
    fields = value * _INVERSE % 2**64
    if fields >> _TAG_AT != TAG:
        return None
    return Stamp(
        request=fields >> _REQUEST_AT & (1 << REQUEST_BITS) - 1,
        position=fields & (1 << POSITION_BITS) - 1,
        generation=fields >> _GENERATION_AT & (1 << GENERATION_BITS) - 1,
    )


class WrongToken(NamedTuple):
    """A token that is not what it should be. ``found`` is None if no stamp stands there."""

    expected: Stamp
    found: Stamp | None

    def __str__(self) -> str:
        return f"expected {self.expected}; found {'no stamp' if self.found is None else self.found}"


class Verification(NamedTuple):
    """What a verification found."""

    tokens: int  # compared
    wrong: int
    first: WrongToken | None  # the first wrong one, in the order of the ids given and then of positions


class ContentCheck:
    """Writes stamps into the pages of ``manager`` and verifies them.

    The manager must keep one int64 a token; otherwise raises UsageError.
    """

    def __init__(self, manager: PageManager) -> None:
        storage = manager.gpu.storage
        if storage.dtype != torch.int64 or storage.dim() != 2:
            problem = "contents can be checked only if a token is one int64"
            raise UsageError(problem, "page manager", "Leave token_shape and dtype at their defaults.")
        self._manager = manager
        self._offsets = torch.arange(manager.page_tokens, device=manager.device)
        self._stamp_offsets = self._offsets * MULTIPLIER

    def write(self, ids: Integers, generations: Integers, first: Integers, last: Integers) -> None:
        """Stamp tokens ``first[i]`` to ``last[i] - 1`` of each request: those just computed.

        Raises PageError as :meth:`PageManager.slots`, and UsageError if a number is too large for a stamp.
        """
        fields = self._fields(ids, generations, last)
        slots = self._manager.slots(ids, first, last)
        starts, stops = np.asarray(first, np.int64), np.asarray(last, np.int64)
        request, generation = (torch.from_numpy(np.repeat(field, stops - starts)) for field in fields)
        values = stamp(request, torch.from_numpy(ranges(starts, stops)), generation)
        self._manager.write_tokens(slots, values.to(self._manager.device))

    def verify(self, ids: Integers, generations: Integers, tokens: Integers) -> Verification:
        """Compare each of the first ``tokens[i]`` tokens, at least 1, of each request with its stamp.

        Raises PageError as :meth:`PageManager.block_table`, and UsageError as :meth:`write`.
        """
        manager = self._manager
        request, generation = self._fields(ids, generations, tokens)
        if len(request) == 0:
            return Verification(0, 0, None)
        table = manager.block_table(ids, tokens)
        lengths = np.asarray(tokens, np.int64)
        pages = (lengths + manager.page_tokens - 1) // manager.page_tokens
        page_starts = ranges(np.zeros_like(pages), pages) * manager.page_tokens
        of_page = (np.repeat(request, pages), page_starts, np.repeat(generation, pages))
        at_page_start = stamp(*(torch.from_numpy(field) for field in of_page)).to(manager.device)
        found = manager.gpu.storage.index_select(0, table.indices)
        expected = at_page_start[:, None] + self._stamp_offsets
        wrong = found != expected
        wrong[table.indptr[1:].long() - 1] &= self._offsets < table.last_page_len[:, None]
        number = int(torch.count_nonzero(wrong))
        compared = int(lengths.sum())
        if number == 0:
            return Verification(compared, 0, None)
        page, offset = torch.nonzero(wrong)[0].tolist()
        should_be = Stamp(*(int(field[page]) for field in of_page))
        should_be = should_be._replace(position=should_be.position + offset)
        return Verification(compared, number, WrongToken(should_be, decode(int(found[page, offset]))))

    def _fields(self, ids: Integers, generations: Integers, ends: Integers) -> tuple[Int64s, Int64s]:
        """Ids and generations as int64 arrays. Raises UsageError for a number that a stamp cannot say."""
        request, generation = np.asarray(ids, np.int64), np.asarray(generations, np.int64)
        for name, values, most in (
            ("request", request, 1 << REQUEST_BITS),
            ("generation", generation, 1 << GENERATION_BITS),
            ("position", np.asarray(ends, np.int64) - 1, 1 << POSITION_BITS),
        ):
            if (values >= most).any():
                raise UsageError(
                    f"{name} {values.max()} does not fit a stamp, which ends at {most - 1}",
                    "content check",
                    "Leave content checks off, or use a smaller workload.",
                )
        if (request < 0).any() or (generation < 0).any():
            raise UsageError("a request or generation is negative", "content check", "Number them from 0.")
        return request, generation
