"""The numbers of other tools: what each printed for the Mooncake conversation trace, and its rule in a few lines of Python."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.replay.cache.like import DEFINITIONS, TOOLS, like
from llmtrace.replay.cache.requests import Requests
from llmtrace.replay.cache.stream import of_blocks

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = 512
BLOCKS = [352, 1_409, 2_818, 5_637, 11_275, 22_550, 90_200]


def requests_of(prompts: list[list[int]], tokens: list[int], block_tokens: int) -> Requests:
    ids = np.array([one for prompt in prompts for one in prompt], np.uint32)
    stream = of_blocks(ids, np.cumsum([0, *map(len, prompts)]))
    return Requests(stream, np.arange(len(prompts)), np.array(tokens, np.int32), block_tokens, {})


@pytest.fixture(scope="module")
def mooncake(real_traces: Path) -> Requests:
    rows = [json.loads(line) for line in (real_traces / "mooncake" / "conversation_trace.jsonl").read_text().splitlines()]
    return requests_of([row["hash_ids"] for row in rows], [row["input_length"] for row in rows], BLOCK)


def printed(table: pl.DataFrame, policy: str) -> list[float]:
    return table.filter(pl.col("policy") == policy)["hit_ratio"].to_list()


def test_kvcache_simulator(mooncake: Requests) -> None:
    table = like("kvcache-simulator", mooncake, [BLOCK * one for one in BLOCKS])
    # Its published FIFO evicts any block and lets those of a request in from the first on: it is not held to leaves.
    assert printed(table, "fifo") == pytest.approx([0.04285, 0.04806, 0.06216, 0.12223, 0.19556, 0.27782, 0.3735], abs=5e-6)
    assert printed(table, "lru") == pytest.approx([0.0454, 0.0489, 0.06423, 0.13147, 0.23336, 0.31659, 0.39094], abs=5e-6)
    assert printed(table, "optimal") == pytest.approx([0.11822, 0.22991, 0.30276, 0.37283, *[0.39811] * 3], abs=5e-6)
    assert printed(table, "ceiling") == pytest.approx([0.398113], abs=5e-7)
    assert table["remark"].null_count() == table.height


def test_kvcache_simulator_prints_zero_where_the_cache_is_not_full(mooncake: Requests) -> None:
    table = like("kvcache-simulator", mooncake, [BLOCK * 150_000])
    assert printed(table, "lru") == [0.0]
    assert table.filter(pl.col("policy") == "lru")["remark"].item().startswith("not full by the middle of the trace: 0.39")


def test_llmtrafficlens(mooncake: Requests) -> None:
    table = like("llmtrafficlens", mooncake, [BLOCK * one for one in BLOCKS])
    assert [round(one, 4) for one in printed(table, "lru")] == [0.0454, 0.0488, 0.0642, 0.1305, 0.2335, 0.3165, 0.3912, 0.3983]
    assert table["capacity_blocks"].to_list() == [*BLOCKS, None]


def test_aiperf(mooncake: Requests) -> None:
    assert printed(like("aiperf", mooncake, []), "none") == pytest.approx([0.384258], abs=5e-7)


def test_lmcache(mooncake: Requests) -> None:
    # 1,024 GiB of MiniMax M2, 253,952 bytes a token, are 8,456 blocks: 19.57 %.
    table = like("lmcache", mooncake, [BLOCK * one for one in (352, 8_456, 10**6)])
    assert printed(table, "lru") == pytest.approx([0.042945478, 0.195699840, 0.373379906], abs=1e-9)


prompts = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=7), min_size=2, max_size=30)


class Cache(OrderedDict[int, None]):
    """Blocks from oldest to newest."""

    def use(self, one: int, capacity: int, *, refresh: bool) -> bool:
        """Use a block; whether it was there."""
        was_there = one in self
        if was_there and refresh:
            self.move_to_end(one)
        elif not was_there:
            if len(self) == capacity:
                self.popitem(last=False)
            self[one] = None
        return was_there


def leading(prompt: list[int], cache: Cache) -> int:
    return next((place for place, one in enumerate(prompt) if one not in cache), len(prompt))


@given(prompts=prompts, capacity=st.integers(1, 14), tail=st.integers(1, 10))
def test_single_blocks_as_llmtrafficlens_and_lmcache_use_them(prompts: list[list[int]], capacity: int, tail: int) -> None:
    tokens = [10 * (len(prompt) - 1) + tail for prompt in prompts]
    found = requests_of(prompts, tokens, 10)
    cache, hits, half = Cache(), 0, len(prompts) // 2
    for row, prompt in enumerate(prompts):
        hits += sum(cache.use(one, capacity, refresh=True) for one in prompt) * (row >= half)
    assert printed(like("llmtrafficlens", found, [10 * capacity]), "lru")[0] == 10 * hits / sum(tokens[half:])
    cache, hits = Cache(), 0
    for prompt in prompts:
        full = prompt if tail == 10 else prompt[:-1]
        hits += leading(full, cache)
        for one in full:
            cache.use(one, capacity, refresh=True)
    assert printed(like("lmcache", found, [10 * capacity]), "lru") == [10 * hits / sum(tokens)]


def path(leaf: int) -> list[int]:
    """The blocks from the root of a tree to a leaf, in which block n continues block (n - 1) // 2."""
    return [leaf] if leaf == 0 else [*path((leaf - 1) // 2), leaf]


@given(leaves=st.lists(st.integers(0, 30), min_size=2, max_size=30), capacity=st.integers(1, 14))
def test_fifo_as_kvcache_simulator_has_it(leaves: list[int], capacity: int) -> None:
    prompts = list(map(path, leaves))
    tokens = [10 * len(prompt) for prompt in prompts]
    cache, hits, half, is_full = Cache(), 0, len(prompts) // 2, False
    for row, prompt in enumerate(prompts):
        is_full = is_full or (len(cache) == capacity and row <= half)
        hits += leading(prompt, cache) * (row >= half)
        for one in prompt:
            cache.use(one, capacity, refresh=False)
    table = like("kvcache-simulator", requests_of(prompts, tokens, 10), [10 * capacity])
    assert printed(table, "fifo") == [10 * hits / sum(tokens[half:]) if is_full else 0.0]


def test_without_requests_there_is_no_number() -> None:
    nothing = requests_of([], [], 10)
    for tool in TOOLS:
        assert set(like(tool, nothing, [])["hit_ratio"]) <= {None}


def test_every_tool_is_defined_with_its_version() -> None:
    assert DEFINITIONS.keys() == TOOLS.keys()
    assert all(" 0." in sentence for sentence in DEFINITIONS.values())
