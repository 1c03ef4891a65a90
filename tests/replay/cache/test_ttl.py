"""A time to live against a naive cache with a clock."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.replay.cache.policies.ttl import expire
from llmtrace.replay.cache.replay import replay
from llmtrace.replay.cache.stream import of_blocks, of_objects

uses = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 6), st.integers(0, 5)), min_size=1, max_size=80)
"""Object, size, and time since the use before."""


@given(rows=uses, capacity=st.integers(1, 40), ttl_us=st.integers(0, 30))
def test_objects_expire_as_in_a_cache_with_a_clock(rows: list[tuple[int, int, int]], capacity: int, ttl_us: int) -> None:
    times = np.cumsum([gap for _, _, gap in rows])
    cache: dict[int, tuple[int, int]] = {}
    expected = []
    for (one, size, _), time in zip(rows, times.tolist(), strict=True):
        cache = {other: (held, used) for other, (held, used) in cache.items() if time - used <= ttl_us}
        expected.append(cache.get(one, (-1, 0))[0])
        is_hit = one in cache
        cache.pop(one, None)
        if is_hit or size <= capacity:
            cache[one] = (size, time)
        while sum(held for held, _ in cache.values()) > capacity:
            cache.pop(next(iter(cache)))
    ids, sizes = np.array([row[0] for row in rows], np.uint32), np.array([row[1] for row in rows], np.int32)
    stream = of_objects(ids, sizes, 10)
    assert expire(stream, times, replay(stream, "lru", capacity), ttl_us).tolist() == expected


def test_blocks_expire_from_the_end_of_a_prompt() -> None:
    stream = of_blocks(np.array([0, 1, 2, 0, 1, 0, 1, 2], np.uint32), np.array([0, 3, 5, 8]))
    found = replay(stream, "lru", 3)
    assert found.tolist() == [0, 2, 3]
    assert expire(stream, np.array([0, 10, 15]), found, 10).tolist() == [0, 2, 2]
    assert expire(stream, np.array([0, 10, 15]), found, 15).tolist() == [0, 2, 3]
    assert expire(stream, np.array([0, 10, 15]), found, 4).tolist() == [0, 0, 0]
