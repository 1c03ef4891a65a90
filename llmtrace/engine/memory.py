"""What glibc's allocator is told, where it is the one: arrays of NumPy and of kernels come from it."""

from __future__ import annotations

import ctypes
from contextlib import suppress

__all__ = ["give_back", "share_heap"]

_M_ARENA_MAX = -8
"""How `mallopt` calls the most heaps there may be."""


def share_heap() -> None:
    """Let the arrays of all threads come from one heap, so that none keeps what another could use."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def give_back() -> None:
    """Give memory that is free back to the system, before much of another kind is needed."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
