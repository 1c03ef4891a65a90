"""Blocks with the prefix rule, against naive replays, and the published numbers of the Mooncake conversation trace."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.errors import InputError, UsageError
from llmtrace.replay.cache.accounting import of_found_blocks
from llmtrace.replay.cache.replay import POLICIES, replay
from llmtrace.replay.cache.stack import distances, hits_at
from llmtrace.replay.cache.stream import of_blocks, of_objects

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from llmtrace.replay.cache.stream import Stream

BLOCK_TOKENS = 512
BLOCK_POLICIES = sorted(set(POLICIES) - {"belady-size"})


def stream_of(prompts: list[list[int]]) -> Stream:
    ids = np.array([one for prompt in prompts for one in prompt], np.uint32)
    return of_blocks(ids, np.cumsum([0, *map(len, prompts)]))


@st.composite
def prompts(draw: st.DrawFn) -> list[list[int]]:
    """Paths down a tree in which block `one` continues block `(one - 1) // 2`, so that ids are chained as they are in traces."""
    paths = []
    for leaf in draw(st.lists(st.integers(0, 40), min_size=1, max_size=60)):
        path, one = [leaf], leaf
        while one > 0:
            one = (one - 1) // 2
            path.insert(0, one)
        paths.append(path)
    return paths


def naive(requests: list[list[int]], capacity: int, *, is_lru: bool) -> list[int]:
    """FIFO or LRU over a list of blocks: those that are there are used, the others come in, the last of a prompt first."""
    came: dict[int, tuple[int, int]] = {}
    found = []
    for now, request in enumerate(requests):
        found.append(next((place for place, one in enumerate(request) if one not in came), len(request)))
        present = {one: (now, -place) for place, one in enumerate(request) if one in came}
        if is_lru:
            # As if used last: they are newer than what follows them in the prompt and comes in now.
            came |= present
        for place, one in reversed(list(enumerate(request))):
            if one in present:
                continue
            if len(came) == capacity:
                del came[min(came, key=came.__getitem__)]
            came[one] = (now, -place)
    return found


@given(requests=prompts(), capacity=st.integers(1, 40))
def test_lru_and_fifo_are_the_naive_ones(requests: list[list[int]], capacity: int) -> None:
    stream = stream_of(requests)
    for policy in ("lru", "fifo"):
        assert replay(stream, policy, capacity).tolist() == naive(requests, capacity, is_lru=policy == "lru"), policy


class Leaves(NamedTuple):
    """A naive cache that evicts leaves: keys of blocks, the least goes, and how a key is made."""

    policy: str
    nexts: dict[tuple[int, int], float]

    def replay(self, requests: list[list[int]], capacity: int) -> list[int]:
        keys: dict[int, tuple[float, ...]] = {}
        found = []
        for now, request in enumerate(requests):
            count = next((place for place, one in enumerate(request) if one not in keys), len(request))
            found.append(count)
            for place, one in enumerate(request[:count]):
                if self.policy != "fifo":
                    keys[one] = self.key(now, place, one)
            for place in range(count, len(request)):
                one = request[place]
                if len(keys) == capacity and not self.make_room(keys, request[:place], self.nexts[now, one]):
                    break
                keys[one] = self.key(now, place, one)
        return found

    def make_room(self, keys: dict[int, tuple[float, ...]], busy: list[int], next_use: float) -> bool:
        parents = {(other - 1) // 2 for other in keys if other > 0}
        leaves = [other for other in keys if other not in parents and other not in busy]
        victim = min(leaves, key=keys.__getitem__, default=None)
        if victim is None or (self.policy == "belady" and -keys[victim][0] <= next_use):
            return False
        del keys[victim]
        return True

    def key(self, now: int, place: int, one: int) -> tuple[float, ...]:
        if self.policy == "belady":
            return (-self.nexts[now, one], -one)
        return (now, -place if self.policy == "lru" else place)


@given(requests=prompts(), capacity=st.integers(1, 25))
def test_leaves_only_is_the_naive_one(requests: list[list[int]], capacity: int) -> None:
    later: dict[int, float] = {}
    nexts = {}
    for now in range(len(requests) - 1, -1, -1):
        for one in requests[now]:
            nexts[now, one] = later.get(one, float("inf"))
        later.update(dict.fromkeys(requests[now], now))
    for policy in ("lru", "fifo", "belady"):
        expected = Leaves(policy, nexts).replay(requests, capacity)
        assert replay(stream_of(requests), policy, capacity, leaves_only=True).tolist() == expected, policy


NOBODY = -1


def least_leaf(ranks: dict[int, tuple[float, int, int]], busy: list[int]) -> int:
    parents = {(other - 1) // 2 for other in ranks if other > 0}
    return min((other for other in ranks if other not in parents and other not in busy), key=ranks.__getitem__, default=NOBODY)


def naive_gdsf_of_leaves(requests: list[list[int]], capacity: int) -> list[int]:
    """Ranks of blocks with when they got them; what comes in is ranked before room is made, and may be what does not stay."""
    ranks: dict[int, tuple[float, int, int]] = {}
    uses: dict[int, int] = {}
    floor, found = 0.0, []
    for now, request in enumerate(requests):
        found.append(next((place for place, one in enumerate(request) if one not in ranks), len(request)))
        for place, one in enumerate(request[: found[-1]]):
            uses[one] += 1
            ranks[one] = (floor + uses[one] * 1e6, now, -place)
        for place, one in list(enumerate(request))[found[-1] :]:
            rank, is_full = floor + 1e6, len(ranks) == capacity
            victim = least_leaf(ranks, request[:place]) if is_full else NOBODY
            lowest = ranks[victim][0] if victim in ranks else rank
            floor = min(rank, lowest) if victim in ranks else floor
            if rank < lowest or (is_full and victim == NOBODY):
                break
            ranks.pop(victim, None)
            uses[one], ranks[one] = 1, (rank, now, -place)
    return found


@given(requests=prompts(), capacity=st.integers(1, 25))
def test_gdsf_of_leaves_is_the_naive_one(requests: list[list[int]], capacity: int) -> None:
    assert replay(stream_of(requests), "gdsf", capacity, leaves_only=True).tolist() == naive_gdsf_of_leaves(requests, capacity)


@given(requests=prompts(), capacity=st.integers(1, 40), policy=st.sampled_from(BLOCK_POLICIES))
def test_no_policy_finds_more_than_there_was_or_than_the_optimum(requests: list[list[int]], capacity: int, policy: str) -> None:
    stream = stream_of(requests)
    unbounded, optimum = replay(stream, "lru", stream.objects), replay(stream, "belady", capacity, leaves_only=True)
    assert unbounded.tolist() == naive(requests, stream.objects, is_lru=True)
    found = replay(stream, policy, capacity, leaves_only=True)
    assert np.all(found <= unbounded)
    assert found.sum() <= optimum.sum()
    assert np.all(replay(stream, policy, capacity) <= unbounded)


@given(requests=prompts())
def test_stack_distances_agree_with_replays(requests: list[list[int]]) -> None:
    stream = stream_of(requests)
    distance, ones = distances(stream), np.ones(stream.ids.size, np.int64)
    capacities = np.arange(max(map(len, requests)), stream.objects + 1)
    replays = [int(replay(stream, "lru", int(capacity)).sum()) for capacity in capacities]
    assert hits_at(distance, ones, capacities).tolist() == replays


@given(
    uses=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 9)), min_size=1, max_size=100),
    room=st.integers(0, 300),
)
def test_stack_distances_agree_with_replays_of_objects_that_grow(uses: list[tuple[int, int]], room: int) -> None:
    sizes = np.zeros(12, np.int32)
    grown = np.empty(len(uses), np.int32)
    for row, (one, more) in enumerate(uses):
        sizes[one] += more
        grown[row] = sizes[one]
    stream = of_objects(np.array([one for one, _ in uses], np.uint32), grown, 12)
    capacity = int(sizes.max()) + room
    expected = int(grown[replay(stream, "lru", capacity) >= 0].sum())
    assert hits_at(distances(stream), grown.astype(np.int64), np.array([capacity])).tolist() == [expected]


def test_a_block_counts_only_if_all_before_it_are_there() -> None:
    # Room for three: 0, which came in last of its prompt, stays, but 2 and 1 go for 4 and 3. Then the prompt finds one block.
    assert replay(stream_of([[0, 1, 2], [0, 3, 4], [0, 1, 2]]), "fifo", 3).tolist() == [0, 1, 1]


def test_a_request_longer_than_the_cache_leaves_its_beginning() -> None:
    assert replay(stream_of([[0, 1, 2, 3], [0, 1, 2, 3]]), "lru", 2).tolist() == [0, 2]
    assert replay(stream_of([[0, 1, 2, 3]] * 6), "lru", 1).tolist() == [0, 1, 0, 1, 0, 1]
    assert replay(stream_of([[0, 1, 2, 3], [0, 1, 2, 3]]), "lru", 2, leaves_only=True).tolist() == [0, 2]


def test_the_same_block_twice_in_a_prompt_is_one_block() -> None:
    assert replay(stream_of([[0, 0, 1], [0, 0, 1]]), "lru", 2).tolist() == [0, 3]


def test_a_cache_without_room_finds_nothing() -> None:
    stream = stream_of([[0, 1], [0, 1]])
    for policy in BLOCK_POLICIES:
        assert replay(stream, policy, 0).tolist() == replay(stream, policy, 0, leaves_only=True).tolist() == [0, 0]


@pytest.mark.parametrize("prompts", [[[0, 1, 2], [1, 3]], [[0, 0]], [[0, 1], [1, 0]]])
def test_leaves_need_hashes_of_whole_prefixes(prompts: list[list[int]]) -> None:
    stream = stream_of(prompts)
    assert not stream.is_chained
    assert stream_of([[0, 1, 2], [0, 1, 3], [4]]).is_chained
    with pytest.raises(InputError, match="not of whole prefixes") as caught:
        replay(stream, "lru", 2, leaves_only=True)
    assert "Leave it out" in caught.value.hint


def test_blocks_of_one_size_need_no_belady_for_sizes() -> None:
    with pytest.raises(UsageError, match="belady-size is for objects"):
        replay(stream_of([[0]]), "belady-size", 1)


class Mooncake(NamedTuple):
    stream: Stream
    input_tokens: npt.NDArray[np.int64]


@pytest.fixture(scope="module")
def mooncake(real_traces: Path) -> Mooncake:
    rows = [json.loads(line) for line in (real_traces / "mooncake" / "conversation_trace.jsonl").read_text().splitlines()]
    return Mooncake(stream_of([row["hash_ids"] for row in rows]), np.array([row["input_length"] for row in rows]))


CAPACITIES = [352, 1409, 2818, 5637, 11275, 22550, 90200]


def ratio(mooncake: Mooncake, policy: str, capacity: int, *, leaves_only: bool = False) -> float | None:
    found = replay(mooncake.stream, policy, capacity, leaves_only=leaves_only)
    return of_found_blocks(found, mooncake.input_tokens, BLOCK_TOKENS, first=found.size // 2).token_hit_ratio_prefix


def test_mooncake_without_bound(mooncake: Mooncake) -> None:
    found = replay(mooncake.stream, "lru", mooncake.stream.objects)
    cold, warm = (of_found_blocks(found, mooncake.input_tokens, BLOCK_TOKENS, first=first) for first in (0, found.size // 2))
    assert (warm.prefix_tokens, warm.input_tokens) == (27_038_068, 67_915_607)
    assert warm.token_hit_ratio_prefix == pytest.approx(0.398113, abs=5e-7)
    assert cold.token_hit_ratio_prefix == pytest.approx(0.373624, abs=5e-7)
    assert mooncake.stream.offsets is not None
    assert (found / np.diff(mooncake.stream.offsets)).mean() == pytest.approx(0.384258, abs=5e-7)


@pytest.mark.parametrize(
    ("policy", "leaves_only", "expected"),
    [
        ("lru", False, [0.0454, 0.0489, 0.06423, 0.13147, 0.23336, 0.31659, 0.39094]),
        ("lru", True, [0.0454, 0.0489, 0.06423, 0.13147, 0.23336, 0.31659, 0.39094]),
        ("fifo", False, [0.04298, 0.04815, None, 0.1246, None, 0.27741, None]),
        ("belady", True, [0.11822, 0.22991, 0.30276, 0.37283, 0.39811, 0.39811, 0.39811]),
    ],
)
def test_mooncake_at_capacities(mooncake: Mooncake, policy: str, expected: list[float | None], *, leaves_only: bool) -> None:
    for capacity, value in zip(CAPACITIES, expected, strict=True):
        if value is not None:
            assert ratio(mooncake, policy, capacity, leaves_only=leaves_only) == pytest.approx(value, abs=5e-6), capacity


def test_every_policy_ends_where_only_leaves_may_go(mooncake: Mooncake) -> None:
    # Most of a full cache is pinned then: what went past all of it for every block would not end.
    optimum = replay(mooncake.stream, "belady", 5_637, leaves_only=True).sum()
    found = {policy: int(replay(mooncake.stream, policy, 5_637, leaves_only=True).sum()) for policy in BLOCK_POLICIES}
    assert all(0.25 * optimum < hits <= optimum for hits in found.values()), found


def test_mooncake_curve_of_lru_at_once(mooncake: Mooncake) -> None:
    stream, offsets = mooncake.stream, mooncake.stream.offsets
    assert offsets is not None
    first = (offsets.size - 1) // 2
    weights = np.full(stream.ids.size, BLOCK_TOKENS, np.int64)
    # The last block of a prompt, which stands first, has what is left of it.
    weights[offsets[:-1]] = mooncake.input_tokens - BLOCK_TOKENS * (np.diff(offsets) - 1)
    weights[: offsets[first]] = 0
    hits = hits_at(distances(stream), weights, np.array(CAPACITIES))
    assert hits.tolist() == [3_083_336, 3_320_864, 4_362_064, 8_928_755, 15_849_049, 21_501_492, 26_550_644]
