"""Caches of instances against `cache`'s own replay, and blocks on several instances against a slow one."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.replay.cache.policies.ttl import expire
from llmtrace.replay.cache.replay import replay
from llmtrace.replay.cache.stream import of_blocks, of_objects
from llmtrace.replay.draws import below, new_draws
from llmtrace.replay.route import sessions
from llmtrace.replay.route.blocks import Prompts
from llmtrace.replay.route.cell import CACHE_POLICIES, SEED, TTL, UNLIMITED, Cell, Outcome, Running, run
from llmtrace.replay.route.eviction import ORDERS
from llmtrace.replay.route.fleets import MAKERS
from llmtrace.replay.route.loop import feed, new_books
from llmtrace.replay.route.loop import replay as replay_cell
from llmtrace.replay.route.policy import NOBODY
from llmtrace.replay.route.rules import Rule
from llmtrace.replay.route.stream import Requests, prepare
from llmtrace.replay.route.view import new_view

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.replay.cache.stream import Sizes, Stream

    Times = npt.NDArray[np.int64]

BLOCK = 16


def hits(outcome: Outcome) -> tuple[int, int]:
    tokens, requests = outcome.books.counts[:2].tolist()
    return tokens, requests


def dense(numbers: list[int]) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    order = {one: place for place, one in enumerate(dict.fromkeys(numbers))}
    return np.array([order[one] for one in numbers], np.uint32)


def requests(session: list[int], prompts: list[int], answers: list[int]) -> Requests:
    rows = len(session)
    time = np.arange(rows, dtype=np.int64) * 1_000_000
    users = np.full(rows, NOBODY, np.uint32)
    return Requests(time, time, dense(session), users, np.array(prompts, np.int32), np.array(answers, np.int32))


TTL_US = 7_000_000


def simulated(stream: Stream, policy: str, capacity: int, times_us: Times) -> Sizes:
    """What `cache` finds."""
    if policy == TTL:
        return expire(stream, times_us, replay(stream, "lru", capacity), TTL_US)
    return replay(stream, policy, capacity)


@pytest.mark.parametrize("policy", CACHE_POLICIES)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=60), st.integers(5, 400))
def test_one_instance_finds_what_the_cache_simulator_finds(policy: str, rows: list[tuple[int, int, int]], capacity: int) -> None:
    """Sessions never shrink there, and where a queue is all that is kept none is larger than the cache: there the two differ."""
    sizes: dict[int, int] = {}
    trace = []
    for session, more, answer in rows:
        prompt = sizes.get(session, 0) + more
        sizes[session] = prompt + answer
        trace.append((session, prompt, answer))
    if policy not in MAKERS:
        capacity = max(capacity, *sizes.values())
    asked = requests(*map(list, zip(*trace, strict=True)))
    stream = of_objects(asked.session, asked.input_tokens + asked.output_tokens)
    reused = np.minimum(simulated(stream, policy, capacity, asked.arrival_us), asked.input_tokens).clip(0)
    outcome = run(prepare(asked), Cell(Rule("round-robin"), 1, capacity, policy, ttl_us=TTL_US))
    assert hits(outcome) == (reused.sum(), (reused > 0).sum())


@st.composite
def prompts(draw: st.DrawFn) -> list[list[int]]:
    """Paths in a tree of blocks, as chained hashes give: no block has two before it."""
    paths: list[list[int]] = [[]]
    for _ in range(draw(st.integers(1, 12))):
        paths.append([*draw(st.sampled_from(paths)), len(paths)])
    return draw(st.lists(st.sampled_from(paths), min_size=1, max_size=40))


def of_paths(paths: list[list[int]]) -> tuple[Requests, Prompts]:
    ids = dense([block for path in paths for block in path])
    offsets = np.array([0, *np.cumsum([len(path) for path in paths])], np.int64)
    tokens = [max(1, len(path) * BLOCK - 3) for path in paths]
    return requests(list(range(len(paths))), tokens, [0] * len(paths)), Prompts(ids, offsets, BLOCK)


# The other three keep the books of S3-FIFO or GDSF, as sessions show, and each takes ten seconds to compile for blocks.
@pytest.mark.parametrize("policy", [policy for policy in CACHE_POLICIES if policy not in {"arc", "lfu", "lhd"}])
@given(prompts(), st.integers(0, 14))
def test_one_instance_finds_the_blocks_that_the_cache_simulator_finds(policy: str, paths: list[list[int]], blocks: int) -> None:
    asked, held = of_paths(paths)
    found = simulated(of_blocks(held.ids, held.offsets), policy, blocks, asked.arrival_us)
    reused = np.minimum(found.astype(np.int64) * BLOCK, asked.input_tokens)
    outcome = run(prepare(asked, prompts=held), Cell(Rule("round-robin"), 1, blocks * BLOCK + 5, policy, ttl_us=TTL_US))
    assert hits(outcome) == (reused.sum(), (reused > 0).sum())


@given(prompts(), st.integers(1, 4))
def test_the_longest_prefix_is_found_on_any_instance(paths: list[list[int]], instances: int) -> None:
    """Without a limit: what an instance holds is every block of every prompt it served."""
    asked, held = of_paths(paths)
    for policy in ("cache-first", "round-robin"):
        draws = new_draws(SEED)
        outcome = run(prepare(asked, prompts=held), Cell(Rule(policy), instances, UNLIMITED))
        caches: list[set[int]] = [set() for _ in range(instances)]
        tokens = movable = 0
        for row, path in enumerate(paths):
            lengths = [next((at for at, block in enumerate(path) if block not in cache), len(path)) for cache in caches]
            found = [min(length * BLOCK, int(asked.input_tokens[row])) for length in lengths]
            best = max(found)
            chosen = row % instances if policy == "round-robin" else found.index(best)
            if policy == "cache-first" and best == 0:
                chosen = below(draws, min(3, instances))
            tokens += found[chosen]
            movable += best - found[chosen]
            caches[chosen].update(path)
        assert (outcome.books.counts[0], outcome.books.counts[2]) == (tokens, movable)
        assert outcome.copies == sum(map(len, caches))
        assert outcome.objects == len(set().union(*caches))
        assert outcome.physical_tokens == BLOCK * outcome.copies


def test_a_cache_without_room_for_a_block_holds_none() -> None:
    asked, held = of_paths([[1], [1], [1]])
    assert hits(run(prepare(asked, prompts=held), Cell(Rule("cache-first"), 1, BLOCK - 1))) == (0, 0)


def test_long_prompts_need_more_room() -> None:
    paths = [list(range(start, start + 3_000)) for start in range(0, 15_000, 3_000)] * 2
    asked, held = of_paths(paths)
    outcome = run(prepare(asked, prompts=held), Cell(Rule("round-robin"), 1, UNLIMITED))
    assert hits(outcome) == (int(asked.input_tokens[:5].sum()), 5)
    assert outcome.copies == 15_000


def test_memory_is_for_sessions_that_live() -> None:
    """A hundred thousand sessions of two turns, of which thirty live at a time, in caches of two or three sessions each."""
    rows = np.arange(200_000)
    session = np.where(rows % 2 == 0, rows // 2, np.maximum(rows // 2 - 30, 0)).astype(np.uint32)
    stream = prepare(requests(session.tolist(), [10] * rows.size, [1] * rows.size))
    store, view = sessions.new(8, ORDERS["lru"]).fed(stream), new_view(8, 25, SEED)
    policy, books = Rule("round-robin").new(8, 0), new_books(stream.extent, 8, 10).fed(stream)
    arrays = feed(stream, stream.requests.user)
    assert replay_cell(policy, store, view, books, arrays, 0, rows.size) == rows.size
    assert stream.sessions < 40
    assert store.copies.pool[1] < 200
    assert store.copies.rows.shape[0] < 5_000


def test_instances_do_not_raise_the_hits_of_round_robin() -> None:
    """Sessions of ten turns that take turns: with more instances a session comes back later to each."""
    rows = [(session, 100 * turn, 100) for turn in range(1, 11) for session in range(7)]
    stream = prepare(requests(*map(list, zip(*rows, strict=True))))
    found = [hits(run(stream, Cell(Rule("round-robin"), instances, UNLIMITED)))[0] for instances in (1, 2, 4, 5, 20)]
    assert all(more >= fewer for more, fewer in pairwise(found))
    assert found[0] > found[-1] == 0


@pytest.mark.parametrize("policy", MAKERS)
def test_instances_that_need_more_slots_are_caches_of_their_own(policy: str) -> None:
    """Round robin gives each instance every third request, and it finds what a cache that has these alone finds."""
    draws = np.random.default_rng(2)
    session = draws.zipf(1.2, 6_000) % 3_000
    turn = np.zeros(3_000, np.int64)
    prompts = []
    for one in session.tolist():
        turn[one] += 1
        prompts.append(int(10 * turn[one] + one % 7))
    asked = requests(session.tolist(), prompts, [1] * 6_000)
    tokens = found = 0
    for first in range(3):
        rows = np.arange(first, 6_000, 3)
        mine, objects = asked.taken(rows), int(asked.session.max()) + 1
        stream = of_objects(mine.session, mine.input_tokens + mine.output_tokens, objects)
        reused = np.minimum(replay(stream, policy, 9_000), mine.input_tokens).clip(0)
        tokens, found = tokens + int(reused.sum()), found + int((reused > 0).sum())
    assert hits(run(prepare(asked), Cell(Rule("round-robin"), 3, 9_000, policy))) == (tokens, found)


@pytest.mark.parametrize("policy", ["s3fifo", "arc"])
def test_slots_of_what_is_remembered_no_longer_are_used_again(policy: str) -> None:
    """Sessions of one turn, of which a cache holds ten and remembers as many: slots for a hundred are enough."""
    rows = 20_000
    stream = prepare(requests(list(range(rows)), [9] * rows, [1] * rows))
    cell = Running(Cell(Rule("round-robin"), 2, 100 if policy == "arc" else 200, policy), stream.extent)
    cell.advance(stream)
    assert cell.outcome().objects == rows
    assert cell._store.slots.held.shape[1] <= 128  # noqa: SLF001 - what it takes is seen nowhere else
    assert cell._store.base.copies.rows.shape[0] < 5_000  # noqa: SLF001
