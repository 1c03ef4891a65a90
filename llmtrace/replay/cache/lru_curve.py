"""LRU at many capacities from one pass over the stream, see `stack`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from numba import njit

from llmtrace.replay.cache import stack
from llmtrace.replay.cache.tables import RATIOS

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.replay.cache.requests import Requests
    from llmtrace.replay.cache.stream import Ids, Offsets, Ones, Sizes

    Integers = npt.NDArray[np.int64]

__all__ = ["lru_curve", "lru_hits"]

_POINTS = 100
"""Capacities at which the curve is told."""


class LruHits(NamedTuple):
    """What LRU hits at each capacity: requests, their input tokens, and tokens that need not be computed."""

    hit_requests: Integers
    full_tokens: Integers
    prefix_tokens: Integers


def lru_curve(requests: Requests, first: int) -> pl.DataFrame:
    """The ratios of LRU from the capacity of the largest request, from which on they are exact, to where no more is hit.

    Args:
        requests: what is replayed.
        first: the first request that counts.
    """
    distance = stack.of_prefixes(stack.distances(requests.stream), requests.stream)
    units = _capacities(requests, distance)
    hits = lru_hits(requests, distance, units, first)
    tokens = requests.input_tokens[first:]
    totals = (tokens.size, *[int(tokens.sum(dtype=np.int64))] * 2)
    ratios = [amount / max(total, 1) for amount, total in zip(hits, totals, strict=True)]
    return pl.DataFrame({"capacity_tokens": units * requests.unit_tokens, **dict(zip(RATIOS, ratios, strict=True))})


def lru_hits(requests: Requests, distance: Sizes | Integers, units: Integers, first: int) -> LruHits:
    """What LRU hits at capacities of so many tokens or blocks, by the stack distances of the prefixes."""
    stream, tokens = requests.stream, requests.input_tokens
    if stream.offsets is None:
        heads, prefix = distance, _before(stream.ids, stream.sizes, tokens, stream.objects)
        prefix[:first] = 0
    else:
        # A request hits if its first block does, which stands last.
        heads = distance[stream.offsets[1:] - 1]
        prefix = _in_blocks(stream.offsets, tokens, requests.unit_tokens, first)
    full, ones = tokens.copy(), np.ones_like(tokens)
    full[:first] = ones[:first] = 0
    return LruHits(stack.hits_at(heads, ones, units), stack.hits_at(heads, full, units), stack.hits_at(distance, prefix, units))


def _capacities(requests: Requests, distance: Sizes | Integers) -> Integers:
    """Capacities from that of the largest request on, equally far apart on a logarithmic axis."""
    stream = requests.stream
    largest = stream.sizes.max(initial=0) if stream.offsets is None else np.diff(stream.offsets).max(initial=0)
    highest = max(int(largest), int(distance.max(initial=0)))
    if highest == 0:
        return np.zeros(0, np.int64)
    return np.unique(np.geomspace(max(int(largest), 1), highest, _POINTS).round().astype(np.int64))


@njit(nogil=True, cache=True)
def _before(ids: Ids, sizes: Sizes | Ones, tokens: Sizes, objects: int) -> Sizes:
    """Of every use the size at the one before, as far as the input goes."""
    last, found = np.zeros(objects, np.int32), np.empty(ids.size, np.int32)
    for now in range(ids.size):
        found[now] = min(last[ids[now]], tokens[now])
        last[ids[now]] = sizes[now]
    return found


@njit(nogil=True, cache=True)
def _in_blocks(offsets: Offsets, tokens: Sizes, block_tokens: int, first: int) -> Sizes:
    """The input tokens in every block, 0 before the first request that counts."""
    found = np.zeros(offsets[-1], np.int32)
    for request in range(first, offsets.size - 1):
        left = np.int64(tokens[request])
        for now in range(offsets[request + 1] - 1, offsets[request] - 1, -1):
            found[now] = min(left, block_tokens)
            left -= found[now]
    return found
