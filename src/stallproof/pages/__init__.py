"""The page manager: carries out a plan on tensors, on CUDA or on the CPU. The only package that imports torch.

``PageManager`` moves the pages, ``ContentCheck`` proves that every token still stands where it belongs.
"""

from __future__ import annotations

from stallproof.errors import UsageError

try:
    import torch as _torch
except ModuleNotFoundError as error:
    remedy = "Install it: pip install 'stallproof[pages]'."
    raise UsageError("torch is not installed", "stallproof.pages", remedy) from error

from stallproof.pages.manager import BlockTables, PageManager
from stallproof.pages.stamps import ContentCheck, Stamp, Verification, WrongToken, decode, stamp

__all__ = [
    "BlockTables",
    "ContentCheck",
    "PageManager",
    "Stamp",
    "Verification",
    "WrongToken",
    "decode",
    "stamp",
]

del _torch
