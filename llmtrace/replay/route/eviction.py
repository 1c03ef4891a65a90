"""In which order an instance evicts: those of `cache`'s policies that need no more than a queue and a mark of each copy.

The others are in `llmtrace.replay.route.ruled`, with states of their own, and in `llmtrace.replay.route.expiring`.

- LRU: a hit moves the copy first; the last goes.
- FIFO: hits change nothing; the last goes.
- CLOCK: a hit marks the copy; a marked one that would go loses its mark and becomes first instead.
- SIEVE: a hit marks the copy; a hand goes from the last copy towards the first, takes marks off, and evicts the first without
  one.

Sources: `llmtrace.replay.cache.policies`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llmtrace.replay.kernels import kernel
from llmtrace.replay.route.copies import FRONT, HAND, HEAD, MARK, NONE, TAIL, drop, place_first, take_out

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmtrace.replay.route.copies import Copies

__all__ = ["LRU", "ORDERS", "evict", "use"]

LRU, FIFO, CLOCK, SIEVE = range(4)
ORDERS: Mapping[str, int] = {"lru": LRU, "fifo": FIFO, "clock": CLOCK, "sieve": SIEVE}
"""The orders by the names that `cache` has for them."""


@kernel
def use(copies: Copies, order: int, row: int) -> None:
    """Note that a copy in a cache is used."""
    if order != LRU:
        copies.rows[row, MARK] = 1
    elif copies.rows[row, FRONT] != NONE:
        take_out(copies, row)
        place_first(copies, row)


@kernel
def evict(copies: Copies, order: int, instance: int) -> Any:
    """Evict the copy that has to go from a cache that is not empty: its size."""
    row = copies.ends[instance, TAIL]
    if order == CLOCK:
        row = _without_mark(copies, instance)
    elif order == SIEVE:
        row = _at_hand(copies, instance)
    return drop(copies, row)


@kernel
def _without_mark(copies: Copies, instance: int) -> Any:
    row = copies.ends[instance, TAIL]
    while copies.rows[row, MARK]:
        take_out(copies, row)
        place_first(copies, row)
        row = copies.ends[instance, TAIL]
    return row


@kernel
def _at_hand(copies: Copies, instance: int) -> Any:
    row = copies.ends[instance, HAND]
    if row == NONE:
        row = copies.ends[instance, TAIL]
    while copies.rows[row, MARK]:
        copies.rows[row, MARK] = 0
        row = copies.rows[row, FRONT]
        if row == NONE:
            row = copies.ends[instance, TAIL]
    copies.ends[instance, HAND] = copies.rows[row, FRONT]
    return row


@kernel
def is_alone(copies: Copies, instance: int) -> Any:
    """Whether a cache holds at most one copy."""
    return copies.ends[instance, HEAD] == copies.ends[instance, TAIL]
