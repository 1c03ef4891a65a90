"""The numbers that other tools print for the same trace, each by its own definition.

Four tools that replay block hashes call four different things the hit ratio. Here each has its rule, in words and replayed.
Their rules agree with what they print for the Mooncake conversation trace, in the versions that are named.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from numba import njit

from llmtrace.replay.cache.accounting import of_found_blocks
from llmtrace.replay.cache.policy import ABSENT
from llmtrace.replay.cache.replay import replay
from llmtrace.replay.cache.stream import of_objects

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.replay.cache.requests import Requests
    from llmtrace.replay.cache.stream import Ids, Offsets, Sizes, Stream

    Integers = npt.NDArray[np.int64]

__all__ = ["DEFINITIONS", "TOOLS", "like"]


class Row(NamedTuple):
    """What a tool prints.

    Attributes:
        policy: as the tool calls it.
        capacity_blocks: None without bound.
        hit_ratio: the number; None where it has none.
        remark: what it hides.
    """

    policy: str
    capacity_blocks: int | None
    hit_ratio: float | None
    remark: str | None = None


DEFINITIONS: Mapping[str, str] = {
    "llmtrafficlens": (
        "llmtrafficlens 0.13.4: LRU over single blocks, used from the first of a prompt to the last. Every block that is there "
        "counts with a whole block of tokens, also after one that is not, and also a last one that holds fewer; over the input "
        "tokens of the second half of the requests."
    ),
    "kvcache-simulator": (
        "kvcache-simulator 0.1.3: leading blocks in the cache, with the tokens that they hold, over the input tokens of the "
        "second half of the requests. fifo evicts any block, and lets those of a request in from the first of the prompt to the "
        "last, so that beginnings go before ends; it is not held to leaves. lru and optimal (Belady's rule, which may leave a "
        "block out) evict leaves of the prefix tree alone. Where the cache is not full by the middle of the trace it prints 0."
    ),
    "aiperf": (
        "AIPerf 0.13.0 (analyze-trace): of each request the share of its blocks before the first that no earlier request had, "
        "the mean of it over all requests, short and long alike; no eviction and no warm-up."
    ),
    "lmcache": (
        "LMCache 0.5.6 (cache simulator): LRU over blocks that are full; the tokens behind the last full one are always a miss. "
        "Leading blocks in the cache over the input tokens of all requests, from an empty cache on."
    ),
}
"""What each tool's number is."""

_HALF = 2


def like(tool: str, requests: Requests, capacities: Sequence[int], threads: int | None = None) -> pl.DataFrame:
    """What a tool prints, a row per policy and capacity: `tool`, `policy`, `capacity_tokens`, `hit_ratio` and a `remark`.

    Args:
        tool: one of `TOOLS`.
        requests: blocks.
        capacities: in tokens, whole blocks.
        threads: replays at once; the number of processors by default.
    """
    size = requests.unit_tokens
    with ThreadPoolExecutor(threads or os.cpu_count() or 1, thread_name_prefix="llmtrace-replay") as pool:
        jobs = TOOLS[tool](requests, [capacity // size for capacity in capacities])
        rows = list(pool.map(lambda job: job(), jobs))
    schema = {"policy": pl.String, "capacity_blocks": pl.Int64, "hit_ratio": pl.Float64, "remark": pl.String}
    table = pl.DataFrame(rows, schema, orient="row")
    tokens = (pl.col("capacity_blocks") * size).alias("capacity_tokens")
    return table.select(pl.lit(tool).alias("tool"), "policy", tokens, "capacity_blocks", "hit_ratio", "remark")


def _llmtrafficlens(requests: Requests, blocks: Sequence[int]) -> list[Callable[[], Row]]:
    stream = _rootward(requests.stream.forward, requests.stream.objects)
    first = requests.input_tokens.size // _HALF
    start, total = _offsets(requests)[first], int(requests.input_tokens[first:].sum(dtype=np.int64))

    def one(capacity: int | None) -> Row:
        found = replay(stream, "lru", stream.objects if capacity is None else capacity)
        return Row("lru", capacity, _ratio(int((found[start:] != ABSENT).sum()) * requests.unit_tokens, total))

    return [partial(one, capacity) for capacity in (*blocks, None)]


def _kvcache_simulator(requests: Requests, blocks: Sequence[int]) -> list[Callable[[], Row]]:
    stream, first = requests.stream, requests.input_tokens.size // _HALF
    _ = stream.is_chained, stream.nexts
    rootward = _rootward(stream.forward, stream.objects)
    seen = np.unique(stream.ids[: _offsets(requests)[first]]).size

    def one(policy: str, capacity: int | None) -> Row:
        if policy == "fifo":
            found = _leading(replay(rootward, "fifo", capacity or 0), _offsets(requests))
        else:
            known = {"optimal": "belady"}.get(policy, "lru")
            found = replay(stream, known, stream.objects if capacity is None else capacity, leaves_only=capacity is not None)
        hits = of_found_blocks(found, requests.input_tokens, requests.unit_tokens, first=first)
        if capacity is not None and seen < capacity:
            hidden = "" if hits.token_hit_ratio_prefix is None else f": {hits.token_hit_ratio_prefix:.5f}"
            return Row(policy, capacity, 0.0, f"not full by the middle of the trace{hidden}")
        return Row(policy, capacity, hits.token_hit_ratio_prefix)

    runs = [(policy, capacity) for policy in ("fifo", "lru", "optimal") for capacity in blocks]
    return [partial(one, *run) for run in [*runs, ("ceiling", None)]]


def _aiperf(requests: Requests, blocks: Sequence[int]) -> list[Callable[[], Row]]:
    def one() -> Row:
        found = replay(requests.stream, "fifo", requests.stream.objects)
        lengths = np.diff(_offsets(requests))
        return Row("none", None, float((found / lengths).mean()) if found.size else None)

    return [one]


def _lmcache(requests: Requests, blocks: Sequence[int]) -> list[Callable[[], Row]]:
    offsets, kept = _full_blocks(_offsets(requests), requests.input_tokens, requests.unit_tokens)
    stream = _rootward(requests.stream.forward[kept], requests.stream.objects)
    total = int(requests.input_tokens.sum(dtype=np.int64))

    def one(capacity: int) -> Row:
        found = _leading(replay(stream, "lru", capacity), offsets)
        return Row("lru", capacity, _ratio(int(found.sum(dtype=np.int64)) * requests.unit_tokens, total))

    return [partial(one, capacity) for capacity in blocks]


TOOLS: Mapping[str, Callable[[Requests, Sequence[int]], list[Callable[[], Row]]]] = {
    "llmtrafficlens": _llmtrafficlens,
    "kvcache-simulator": _kvcache_simulator,
    "aiperf": _aiperf,
    "lmcache": _lmcache,
}
"""What replays as each tool does: the rows that it prints, each to be worked out on a thread."""


def _ratio(hits: int, total: int) -> float | None:
    return hits / total if total else None


def _rootward(forward: Ids, objects: int) -> Stream:
    """Blocks as objects of their own, used from the first of each prompt to the last.

    What is in the cache as a request arrives and what each block finds as it is used is the same up to the first miss, since
    nothing is evicted before.
    """
    return of_objects(forward, np.ones(forward.size, np.int32), objects)


def _offsets(requests: Requests) -> Offsets:
    return np.zeros(1, np.int64) if requests.stream.offsets is None else requests.stream.offsets


@njit(nogil=True, cache=True)
def _leading(found: Sizes, offsets: Offsets) -> Sizes:
    """How many blocks each request finds before the first that it does not."""
    leading = np.zeros(offsets.size - 1, np.int32)
    for request in range(offsets.size - 1):
        place = offsets[request]
        while place < offsets[request + 1] and found[place] != ABSENT:
            place += 1
        leading[request] = place - offsets[request]
    return leading


@njit(nogil=True, cache=True)
def _full_blocks(offsets: Offsets, tokens: Sizes, block_tokens: int) -> tuple[Offsets, npt.NDArray[np.bool_]]:
    """Which blocks are full, and where those of each request begin among them."""
    kept, begins = np.zeros(offsets[-1], np.bool_), np.zeros(offsets.size, np.int64)
    for request in range(offsets.size - 1):
        full = min(tokens[request] // block_tokens, offsets[request + 1] - offsets[request])
        kept[offsets[request] : offsets[request] + full] = True
        begins[request + 1] = begins[request] + full
    return begins, kept
