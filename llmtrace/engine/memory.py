"""What glibc's allocator is told, where it is the one: arrays of NumPy and of kernels come from it."""

from __future__ import annotations

import ctypes
from contextlib import suppress

__all__ = ["share_heap"]

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""How `mallopt` calls what may lie idle at the end of a heap, what is large enough for pages of its own, and the most heaps."""
_IDLE_BYTES, _LARGE_BYTES = 64 << 20, 32 << 20


def share_heap() -> None:
    """Let the arrays of all threads come from one heap, so that none keeps what another could use.

    What the arrays of a part leave serves those of the next: pages that are given back only to be asked for again, and cleared,
    cost as much as what is written into them.
    """
    with suppress(OSError, AttributeError, TypeError):
        tell = ctypes.CDLL(None).mallopt
        for option, value in ((_M_ARENA_MAX, 1), (_M_MMAP_THRESHOLD, _LARGE_BYTES), (_M_TRIM_THRESHOLD, _IDLE_BYTES)):
            tell(option, value)
