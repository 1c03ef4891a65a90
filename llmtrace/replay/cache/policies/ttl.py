"""A time to live: what was not used for longer than that is gone, whatever room there is.

With a capacity it is LRU as well: what expires are the objects used longest ago, which are those that LRU would evict next. So a
cache with a time to live holds what LRU holds, less what is expired, and what it finds follows from what LRU finds and from the
gaps between uses. A gap equal to the time to live is still a hit.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from llmtrace.errors import UsageError
from llmtrace.replay.cache.policy import ABSENT

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.replay.cache.stream import Ids, Offsets, Sizes, Stream

    Times = npt.NDArray[np.int64]

__all__ = ["expire", "time_to_live_us"]

_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800, "ms": 0.001}
_LONGEST_S = 100 * 365 * 86_400


def time_to_live_us(text: str) -> int:
    """A time to live, as `--ttl` takes it, in microseconds.

    Raises:
        UsageError: if it is none.

    >>> time_to_live_us("5m"), time_to_live_us("500ms")
    (300000000, 500000)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|[smhdw])", text.strip(), re.ASCII)
    hint = "Give a number and a unit, one of ms, s, m, h, d, w, as in 500ms, 5m or 1h."
    if found is None:
        raise UsageError(f"--ttl {text}: not a length of time", hint)
    seconds = float(found[1]) * _UNITS_S[found[2]]
    if not 0 < seconds <= _LONGEST_S:
        raise UsageError(f"--ttl {text}: {'not above zero' if seconds == 0 else 'longer than a century'}", hint)
    return round(seconds * 1e6)


def expire(stream: Stream, times: Times, found: Sizes, ttl_us: int) -> Sizes:
    """What a cache with a time to live finds, from what LRU finds at the same capacity.

    Args:
        stream: uses of objects or of blocks.
        times: when each request arrives, in microseconds, ascending.
        found: what LRU finds.
        ttl_us: the time to live, in microseconds.

    >>> from llmtrace.replay.cache.stream import of_objects
    >>> stream = of_objects(np.array([0, 0, 0], np.uint32), np.array([5, 6, 7], np.int32))
    >>> expire(stream, np.array([0, 10, 30]), np.array([-1, 5, 6], np.int32), 10)
    array([-1,  5, -1], dtype=int32)
    """
    last = np.full(stream.objects, np.iinfo(np.int64).min // 2)
    if stream.offsets is None:
        return _expire_objects(stream.ids, times, found, ttl_us, last)
    return _expire_blocks(stream.ids, stream.offsets, times, found, ttl_us, last)


@njit(nogil=True, cache=True)
def _expire_objects(ids: Ids, times: Times, found: Sizes, ttl_us: int, last: Times) -> Sizes:
    left = found.copy()
    for now in range(ids.size):
        if times[now] - last[ids[now]] > ttl_us:
            left[now] = ABSENT
        last[ids[now]] = times[now]
    return left


@njit(nogil=True, cache=True)
def _expire_blocks(ids: Ids, offsets: Offsets, times: Times, found: Sizes, ttl_us: int, last: Times) -> Sizes:
    left = found.copy()
    for request in range(offsets.size - 1):
        time, stop = times[request], offsets[request + 1]
        for place in range(found[request]):
            if time - last[ids[stop - 1 - place]] > ttl_us:
                left[request] = place
                break
        for now in range(offsets[request], stop):
            last[ids[now]] = time
    return left
