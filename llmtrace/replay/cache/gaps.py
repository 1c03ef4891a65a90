"""How long ago what a request finds was used: the idle gap before each use, in classes from a second to a day and more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.replay.cache.requests import Requests
    from llmtrace.replay.cache.stream import Ids, Offsets, Sizes

    Integers = npt.NDArray[np.int64]
    Classes = npt.NDArray[np.uint8]

__all__ = ["EDGES_S", "classes", "tally"]

EDGES_S = (0, 1, 10, 60, 600, 3_600, 86_400)
"""Where classes of gaps begin, in seconds; each ends where the next begins, the last never."""
_FIRST = len(EDGES_S)
"""The class of first uses, which no gap precedes."""


def classes(requests: Requests) -> Classes:
    """The class of the gap before each use; `len(EDGES_S)` for first uses. In the order of `stream.ids`."""
    stream = requests.stream
    offsets = np.arange(stream.ids.size + 1) if stream.offsets is None else stream.offsets
    edges = np.array(EDGES_S[1:], np.int64) * 1_000_000
    return _classes(stream.ids, offsets, requests.times_us, edges, np.full(stream.objects, -1, np.int32))


def tally(requests: Requests, gaps: Classes, found: Sizes, reused: Sizes | Integers, first: int) -> Integers:
    """The tokens that need not be computed, by the class of the gap before their session's or block's use.

    Args:
        requests: what is replayed.
        gaps: the class of each use.
        found: of blocks how many leading ones each request finds.
        reused: tokens of each request that need not be computed.
        first: the first request that counts.
    """
    if requests.stream.offsets is None:
        return _tally_objects(gaps, reused, first)
    return _tally_blocks(gaps, requests.stream.offsets, found, reused, requests.unit_tokens, first)


@njit(nogil=True, cache=True)
def _classes(ids: Ids, offsets: Offsets, times: Integers, edges: Integers, last: Sizes) -> Classes:
    """`last` is -1 for every object at first; it has the request of the last use then."""
    found = np.empty(ids.size, np.uint8)
    for request in range(offsets.size - 1):
        for now in range(offsets[request], offsets[request + 1]):
            before = last[ids[now]]
            if before == -1:
                found[now] = edges.size + 1
                continue
            gap, place = times[request] - times[before], 0
            while place < edges.size and gap >= edges[place]:
                place += 1
            found[now] = place
        for now in range(offsets[request], offsets[request + 1]):
            last[ids[now]] = request
    return found


@njit(nogil=True, cache=True)
def _tally_objects(gaps: Classes, reused: Sizes | Integers, first: int) -> Integers:
    tokens = np.zeros(_FIRST, np.int64)
    for request in range(first, gaps.size):
        if reused[request] > 0:
            tokens[gaps[request]] += reused[request]
    return tokens


@njit(nogil=True, cache=True)
def _tally_blocks(
    gaps: Classes, offsets: Offsets, found: Sizes, reused: Sizes | Integers, block_tokens: int, first: int
) -> Integers:
    tokens = np.zeros(_FIRST, np.int64)
    for request in range(first, offsets.size - 1):
        left = reused[request]
        for place in range(found[request]):
            size = min(left, block_tokens)
            tokens[gaps[offsets[request + 1] - 1 - place]] += size
            left -= size
    return tokens
