"""A digest of a set of states that does not depend on the order in which they were found."""

from __future__ import annotations

import hashlib

import numpy as np

from stallproof.explorer.model import UInt64s


def state_digest(rows: UInt64s) -> str:
    """SHA-256 over the sorted rows, each word as eight bytes, lowest first. ``rows``: ``[states, words]``."""
    ordered = rows[np.lexsort(rows.T[::-1])]
    return hashlib.sha256(np.ascontiguousarray(ordered).astype("<u8").tobytes()).hexdigest()
