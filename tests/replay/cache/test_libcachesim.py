"""Hit counts of libCacheSim 0.3.5 on a stream of objects of equal size, and its binding on small streams where it is installed.

The stream: 4 million uses of 1 million objects, Zipf(0.9), numpy's default generator from seed 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from llmtrace.replay.cache.replay import replay
from llmtrace.replay.cache.stream import of_objects

if TYPE_CHECKING:
    from pathlib import Path

    from llmtrace.replay.cache.stream import Stream

USES, OBJECTS = 4_000_000, 1_000_000
COUNTS = {
    "fifo": (1_446_384, 2_382_347),
    "lru": (1_579_039, 2_527_714),
    "clock": (1_621_907, 2_564_924),
    "sieve": (1_933_803, 2_695_035),
    "s3fifo": (1_969_584, 2_718_400),
    "arc": (1_956_097, 2_709_717),
    "lfu": (1_932_790, 2_695_035),
    "gdsf": (1_774_038, 2_634_641),
    "belady": (2_281_040, 3_072_790),
}
"""At capacities of 10,000 and 100,000 objects; S3-FIFO with its default settings, which are ours."""
NAMES = {
    "fifo": "FIFO",
    "lru": "LRU",
    "clock": "Clock",
    "sieve": "Sieve",
    "s3fifo": "S3FIFO",
    "arc": "ARC",
    "lfu": "LFU",
    "gdsf": "GDSF",
}


@pytest.fixture(scope="module")
def zipf() -> Stream:
    cumulative = np.cumsum(1 / np.arange(1, OBJECTS + 1) ** 0.9)
    ids = np.searchsorted(cumulative / cumulative[-1], np.random.default_rng(1).random(USES))
    return of_objects(ids.astype(np.uint32), np.ones(USES, np.int32), OBJECTS)


@pytest.mark.parametrize("policy", COUNTS)
def test_hit_counts_are_equal_to_the_last_unit(zipf: Stream, policy: str) -> None:
    assert tuple(int((replay(zipf, policy, capacity) >= 0).sum()) for capacity in (10_000, 100_000)) == COUNTS[policy]


@pytest.mark.parametrize(("capacity", "published"), [(10_000, 1_732_199), (100_000, 2_632_948)])
def test_lhd_is_near(zipf: Stream, capacity: int, published: int) -> None:
    # Its samples are drawn otherwise, and it learns at other times.
    assert int((replay(zipf, "lhd", capacity) >= 0).sum()) == pytest.approx(published, rel=0.04)


@pytest.mark.parametrize("capacity", [10_000, 100_000])
def test_greedy_belady_is_belady_where_sizes_are_equal(zipf: Stream, capacity: int) -> None:
    # It lets nothing in that is never used again, which leaves room for a few more.
    more = int((replay(zipf, "belady-size", capacity) >= 0).sum()) - COUNTS["belady"][capacity // 100_000]
    assert 0 <= more < 10


def write_trace(path: Path, ids: np.ndarray[Any, Any], sizes: np.ndarray[Any, Any], nexts: np.ndarray[Any, Any]) -> None:
    rows = np.zeros(ids.size, [("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])
    rows["time"], rows["id"], rows["size"] = np.arange(ids.size), ids.astype(np.uint64) + 1, sizes
    rows["next"] = np.where(nexts < 0, -1, nexts.astype(np.int64) + 1)
    rows.tofile(path)


@pytest.mark.oracle
@pytest.mark.parametrize("policy", [*NAMES, "belady"])
@pytest.mark.parametrize("largest", [1, 8])
def test_hit_counts_are_those_of_the_binding(tmp_path: Path, policy: str, largest: int) -> None:
    libcachesim = pytest.importorskip("libcachesim", reason="libCacheSim's Python binding is not installed")
    for seed in range(4):
        random = np.random.default_rng(seed)
        ids = np.minimum(random.pareto(0.8, 2000) * 5, 299).astype(np.uint32)
        sizes = random.integers(1, largest + 1, 300).astype(np.int32)[ids]
        stream, capacity = of_objects(ids, sizes, 300), int(random.integers(20, 120)) * largest
        write_trace(tmp_path / "trace.bin", ids, sizes, stream.nexts)
        reader = libcachesim.TraceReader(str(tmp_path / "trace.bin"), trace_type=libcachesim.TraceType.ORACLE_GENERAL_TRACE)
        miss_ratio, _ = getattr(libcachesim, NAMES.get(policy, "Belady"))(capacity).process_trace(reader)
        assert int((replay(stream, policy, capacity) >= 0).sum()) == round((1 - miss_ratio) * ids.size), seed
