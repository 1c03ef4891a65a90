"""Every policy against a plain Python one that keeps lists and looks at everything, and against cases worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.errors import UsageError
from llmtrace.replay.cache.replay import POLICIES, replay
from llmtrace.replay.cache.stream import of_objects

if TYPE_CHECKING:
    from collections.abc import Sequence

Uses = list[tuple[int, int]]
"""Object and size of each use."""


class Naive:
    """FIFO, and what the others override. `order` has the objects in the cache, the one that came first first."""

    def __init__(self, uses: Uses, capacity: int) -> None:
        self.uses, self.capacity = uses, capacity
        self.held: dict[int, int] = {}
        self.order: list[int] = []
        self.now = self.incoming = 0

    def hit(self, one: int) -> None:
        """Learn of a use of an object in the cache, whose new size `held` has."""

    def admits(self, _one: int, size: int) -> bool:
        return size <= self.capacity

    def victim(self) -> int | None:
        return self.order[0]

    def forget(self, one: int) -> None:
        self.order.remove(one)

    def insert(self, one: int) -> None:
        self.order.append(one)

    def next_use(self, one: int) -> float:
        later = (row for row in range(self.now + 1, len(self.uses)) if self.uses[row][0] == one)
        return next(later, float("inf"))

    def run(self) -> list[int]:
        found = []
        for now, (one, size) in enumerate(self.uses):
            self.now = now
            found.append(self.held.get(one, -1))
            is_hit = one in self.held
            if is_hit:
                self.held[one] = size
                self.hit(one)
            elif not self.admits(one, size):
                continue
            self.incoming = 0 if is_hit else size
            gone: int | None = one
            while sum(self.held.values()) + self.incoming > self.capacity:
                gone = self.victim()
                if gone is None:
                    break
                self.forget(gone)
                del self.held[gone]
            if not is_hit and gone is not None:
                self.held[one] = size
                self.insert(one)
        return found


class NaiveLRU(Naive):
    def hit(self, one: int) -> None:
        self.order.remove(one)
        self.order.append(one)


class NaiveClock(Naive):
    def __init__(self, uses: Uses, capacity: int) -> None:
        super().__init__(uses, capacity)
        self.marked: set[int] = set()

    def hit(self, one: int) -> None:
        self.marked.add(one)

    def victim(self) -> int | None:
        while self.order[0] in self.marked:
            self.marked.remove(self.order[0])
            self.order.append(self.order.pop(0))
        return self.order[0]


class NaiveSieve(NaiveClock):
    """The hand is the object that it looks at next, None for the oldest."""

    hand: int | None = None

    def victim(self) -> int | None:
        place = 0 if self.hand is None else self.order.index(self.hand)
        while self.order[place] in self.marked:
            self.marked.remove(self.order[place])
            place = (place + 1) % len(self.order)
        self.hand = self.order[place + 1] if place + 1 < len(self.order) else None
        return self.order[place]


class NaiveLFU(Naive):
    def __init__(self, uses: Uses, capacity: int) -> None:
        super().__init__(uses, capacity)
        self.ranks: dict[int, tuple[float, int]] = {}
        self.counts: dict[int, int] = {}

    def hit(self, one: int) -> None:
        self.counts[one] += 1
        self.ranks[one] = (self.counts[one], self.now)

    def victim(self) -> int | None:
        return min(self.ranks, key=self.ranks.__getitem__)

    def forget(self, one: int) -> None:
        del self.ranks[one]

    def insert(self, one: int) -> None:
        self.counts[one], self.ranks[one] = 1, (1, self.now)


class NaiveGDSF(NaiveLFU):
    floor = 0.0
    coming: int | None = None

    def hit(self, one: int) -> None:
        self.counts[one] += 1
        self.ranks[one] = (self.floor + self.counts[one] * 1e6 / self.held[one], self.now)

    def admits(self, one: int, size: int) -> bool:
        if size > self.capacity:
            return False
        self.coming, self.counts[one] = one, 1
        self.ranks[one] = (self.floor + 1e6 / size, self.now)
        return True

    def victim(self) -> int | None:
        one = min(self.ranks, key=self.ranks.__getitem__)
        self.floor = self.ranks[one][0]
        if one == self.coming and self.incoming:
            del self.ranks[one]
            return None
        return one

    def insert(self, _one: int) -> None:
        self.coming = None


class NaiveBelady(Naive):
    def victim(self) -> int | None:
        # Among those that are never used again any will do: the one of the highest number.
        return max(self.held, key=lambda one: (self.next_use(one), one))


class NaiveBeladySize(Naive):
    def admits(self, one: int, size: int) -> bool:
        return size <= self.capacity and self.next_use(one) < float("inf")

    def victim(self) -> int | None:
        last = {one: max(row for row in range(self.now + 1) if self.uses[row][0] == one) for one in self.held}
        return max(self.held, key=lambda one: (self.held[one] * (self.next_use(one) - self.now), self.held[one], last[one]))


class NaiveARC(Naive):
    """Each list from least to most recently used."""

    def __init__(self, uses: Uses, capacity: int) -> None:
        super().__init__(uses, capacity)
        self.once: list[int] = []
        self.again: list[int] = []
        self.ghosts: dict[str, dict[int, int]] = {"once": {}, "again": {}}
        self.target, self.known = 0.0, ""

    def total(self, objects: list[int]) -> int:
        return sum(self.held[one] for one in objects)

    def hit(self, one: int) -> None:
        self.known = ""
        (self.once if one in self.once else self.again).remove(one)
        self.again.append(one)

    def admits(self, one: int, size: int) -> bool:
        if size > self.capacity:
            return False
        self.known = next((name for name, ghosts in self.ghosts.items() if one in ghosts), "")
        if self.known:
            here, there = (sum(self.ghosts[name].values()) for name in (self.known, "again" if self.known == "once" else "once"))
            step = max(there / here, 1)
            self.target = min(self.target + step, self.capacity) if self.known == "once" else max(self.target - step, 0)
            del self.ghosts[self.known][one]
        return True

    def victim(self) -> int | None:
        once, again = self.total(self.once), self.total(self.again)
        ghosts_once, ghosts_again = (sum(ghosts.values()) for ghosts in self.ghosts.values())
        self.nameless = False
        if not self.known:
            if once + ghosts_once + self.incoming > self.capacity:
                self.nameless = not ghosts_once
                if ghosts_once:
                    self.ghosts["once"].pop(next(iter(self.ghosts["once"])))
            elif once + again + ghosts_once + ghosts_again >= 2 * self.capacity and ghosts_again:
                self.ghosts["again"].pop(next(iter(self.ghosts["again"])))
        is_over = once > self.target or (once == self.target and self.known == "again")
        from_once = self.nameless or (once > 0 and is_over) or again == 0
        return (self.once or self.again)[0] if from_once else self.again[0]

    def forget(self, one: int) -> None:
        name, objects = ("once", self.once) if one in self.once else ("again", self.again)
        objects.remove(one)
        if not self.nameless:
            self.ghosts[name][one] = self.held[one]

    def insert(self, one: int) -> None:
        (self.again if self.known else self.once).append(one)


class NaiveS3FIFO(Naive):
    def __init__(self, uses: Uses, capacity: int) -> None:
        super().__init__(uses, capacity)
        self.small: list[int] = []
        self.main: list[int] = []
        self.ghosts: dict[int, int] = {}
        self.counts: dict[int, int] = {}
        self.small_limit = int(capacity * 0.1)
        self.is_ghost = self.has_evicted = False

    def total(self, objects: list[int]) -> int:
        return sum(self.held[one] for one in objects)

    def hit(self, one: int) -> None:
        self.counts[one] += 1

    def admits(self, one: int, size: int) -> bool:
        if size > self.capacity:
            return False
        self.is_ghost = self.ghosts.pop(one, 0) > 0
        return size < self.small_limit or (size == self.small_limit and self.is_ghost)

    def victim(self) -> int | None:
        self.has_evicted = True
        if self.total(self.main) <= self.capacity - self.small_limit:
            while self.small:
                one = self.small[0]
                if self.counts[one] < 2:
                    return one
                self.main.append(self.small.pop(0))
                self.counts[one] = 0
        while self.counts[self.main[0]]:
            one = self.main.pop(0)
            self.counts[one] = min(self.counts[one], 3) - 1
            self.main.append(one)
        return self.main[0]

    def forget(self, one: int) -> None:
        if one in self.main:
            self.main.remove(one)
            return
        self.small.remove(one)
        limit = int(self.capacity * 0.9)
        if self.held[one] <= limit:
            while sum(self.ghosts.values()) + self.held[one] > limit:
                self.ghosts.pop(next(iter(self.ghosts)))
            self.ghosts[one] = self.held[one]

    def insert(self, one: int) -> None:
        self.counts[one] = 0
        is_full = not self.has_evicted and self.total(self.small) >= self.small_limit
        (self.main if self.is_ghost or is_full else self.small).append(one)


NAIVE: dict[str, type[Naive]] = {
    "fifo": Naive,
    "lru": NaiveLRU,
    "clock": NaiveClock,
    "sieve": NaiveSieve,
    "s3fifo": NaiveS3FIFO,
    "arc": NaiveARC,
    "gdsf": NaiveGDSF,
    "lfu": NaiveLFU,
    "belady": NaiveBelady,
    "belady-size": NaiveBeladySize,
}


def ours(uses: Uses, policy: str, capacity: int) -> list[int]:
    ids, sizes = (np.array([use[column] for use in uses]) for column in (0, 1))
    found: list[int] = replay(of_objects(ids.astype(np.uint32), sizes.astype(np.int32), 12), policy, capacity).tolist()
    return found


def hits(found: Sequence[int]) -> int:
    return sum(size >= 0 for size in found)


objects = st.integers(0, 11)
equal = st.lists(objects.map(lambda one: (one, 1)), min_size=1, max_size=120)
fixed = st.lists(objects.map(lambda one: (one, 1 + one % 5)), min_size=1, max_size=120)
changing = st.lists(st.tuples(objects, st.integers(1, 9)), min_size=1, max_size=120)


@st.composite
def growing(draw: st.DrawFn) -> Uses:
    sizes = dict.fromkeys(range(12), 0)
    uses = []
    for one, more in draw(changing):
        sizes[one] += more
        uses.append((one, sizes[one]))
    return uses


@pytest.mark.parametrize("policy", NAIVE)
@given(uses=equal | fixed | changing | growing(), capacity=st.integers(1, 60))
def test_policy_is_the_naive_one(policy: str, uses: Uses, capacity: int) -> None:
    assert ours(uses, policy, capacity) == NAIVE[policy](uses, capacity).run()


@given(uses=equal, capacity=st.integers(1, 12))
def test_belady_bounds_every_policy_where_sizes_are_equal(uses: Uses, capacity: int) -> None:
    bound = hits(ours(uses, "belady", capacity))
    # What need not let everything in holds at most one object more of use than what must.
    bound_of_choosy = hits(ours(uses, "belady", capacity + 1))
    for policy in POLICIES:
        assert hits(ours(uses, policy, capacity)) <= (bound_of_choosy if policy in {"gdsf", "belady-size"} else bound), policy


@given(uses=equal, capacity=st.integers(1, 12), policy=st.sampled_from(["lru", "belady"]))
def test_stack_policies_never_lose_hits_when_the_cache_grows(uses: Uses, capacity: int, policy: str) -> None:
    smaller, larger = (ours(uses, policy, room) for room in (capacity, capacity + 1))
    assert hits(smaller) <= hits(larger)


@given(uses=growing(), policy=st.sampled_from(sorted(POLICIES)))
def test_a_cache_with_room_for_all_finds_whatever_comes_again(uses: Uses, policy: str) -> None:
    # S3-FIFO lets nothing in that is as large as its small queue.
    capacity = 10 * sum(size for _, size in uses) + 20 if policy == "s3fifo" else sum(dict(uses).values())
    last: dict[int, int] = {}
    expected = []
    for one, size in uses:
        expected.append(last.get(one, -1))
        last[one] = size
    assert ours(uses, policy, capacity) == expected


A, B, C, D, E = range(5)
TEN = [A, B, C, A, D, A, B, E, A, C]
"""Ten uses of objects of one size; by hand at room for three:

    fifo    A B C | A hits | D for A | A for B | B for C | E for D | A hits | C for A
    lru     A B C | A hits | D for B | A hits | B for C | E for D | A hits | C for B
    clock   A B C | A hits | D: A is spared, B goes | A hits | B for C | E: A is spared, D goes | A hits | C for B
    belady  A B C | A hits | D for C, used last of all | A and B hit | E for D, not used again | A hits | C
"""


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("fifo", [0, 0, 0, 1, 0, 0, 0, 0, 1, 0]),
        ("lru", [0, 0, 0, 1, 0, 1, 0, 0, 1, 0]),
        ("clock", [0, 0, 0, 1, 0, 1, 0, 0, 1, 0]),
        # The hand takes A's mark and evicts B; going on, it evicts C, D and B, and is not back at A before the end.
        ("sieve", [0, 0, 0, 1, 0, 1, 0, 0, 1, 0]),
        # A has most uses; of those used once the oldest goes: B, C, D, B.
        ("lfu", [0, 0, 0, 1, 0, 1, 0, 0, 1, 0]),
        # D, of rank 1e6, evicts B, and the floor is 1e6. A rises to 4e6. B, 2e6, evicts C; E, 2e6, evicts D; C, 2e6, evicts B.
        ("gdsf", [0, 0, 0, 1, 0, 1, 0, 0, 1, 0]),
        # A moves to T2. D evicts B from T1; B, a ghost, raises the target to 1, evicts C from T1 and comes into T2. T1 with D is
        # not over its target, so E evicts A from T2. A, a ghost of T2, lowers the target and evicts D; C, one of T1, evicts B.
        ("arc", [0, 0, 0, 1, 0, 1, 0, 0, 0, 0]),
        ("belady", [0, 0, 0, 1, 0, 1, 1, 0, 1, 0]),
        # D and E are never used again and do not come in: B and C stay.
        ("belady-size", [0, 0, 0, 1, 0, 1, 1, 0, 1, 1]),
    ],
)
def test_ten_uses_by_hand(policy: str, expected: list[int]) -> None:
    found = ours([(one, 1) for one in TEN], policy, 3)
    assert [int(size >= 0) for size in found] == expected


def test_s3fifo_by_hand() -> None:
    # Room for 20, 2 of it small and 18 main. Until something is evicted, what comes when the small queue is full goes to the main
    # one: 0 and 1 are small, 2 to 19 main. 20 evicts 0, a ghost then, which comes back into the main queue for 1.
    # Now the main queue is over its share, so 1, a ghost too, comes for 2.
    ids = [*range(20), 20, 0, 1, 20]
    found = replay(of_objects(np.array(ids, np.uint32), np.ones(len(ids), np.int32)), "s3fifo", 20).tolist()
    assert found == NaiveS3FIFO([(one, 1) for one in ids], 20).run()
    assert found[20:] == [-1, -1, -1, 1]


def test_s3fifo_lets_nothing_in_that_fills_its_small_queue() -> None:
    assert ours([(A, 10), (A, 10), (B, 9), (B, 9)], "s3fifo", 100) == [-1, -1, -1, 9]


def test_growing_object_evicts_others_until_it_fits_and_itself_where_it_never_does() -> None:
    uses = [(A, 4), (B, 4), (A, 7), (B, 4), (B, 20), (B, 4)]
    # A grows to 7, which leaves no room for B. B comes for A, grows beyond the cache, and is gone.
    assert ours(uses, "lru", 10) == [-1, -1, 4, -1, 4, -1]


def test_greedy_belady_looks_at_the_product_of_size_and_time() -> None:
    # At the third use A (size 6, again in 3) has the product 18, B (2, in 2) has 4: A goes, as it would for its use alone.
    assert ours([(A, 6), (B, 2), (C, 3), (C, 3), (B, 2), (A, 6)], "belady-size", 8) == [-1, -1, -1, 3, 2, -1]
    # Here B is used later than A, but is so small that A goes. Belady has B go first, and then A, which leaves too little room.
    uses = [(A, 6), (B, 1), (C, 3), (C, 3), (A, 6), (B, 1)]
    assert ours(uses, "belady-size", 8) == [-1, -1, -1, 3, -1, 1]
    assert ours(uses, "belady", 8) == [-1, -1, -1, 3, -1, -1]


def test_lhd_keeps_what_is_hit_and_lets_go_what_is_not() -> None:
    # A fifth of the uses are of 300 objects, the others of objects that never come again: LHD learns that, LRU cannot.
    random = np.random.default_rng(7)
    rows = 400_000
    ids = np.where(random.random(rows) < 0.2, random.integers(0, 300, rows), 300 + np.arange(rows)).astype(np.uint32)
    stream = of_objects(ids, np.ones(rows, np.int32))
    by_policy = {policy: int((replay(stream, policy, 400) >= 0).sum()) for policy in ("lru", "lhd", "belady")}
    assert by_policy["lru"] < 0.75 * by_policy["lhd"]
    assert by_policy["lhd"] < by_policy["belady"]


def test_lhd_is_the_same_every_time() -> None:
    uses = [(one % 7, 1 + one % 3) for one in range(200)]
    assert ours(uses, "lhd", 9) == ours(uses, "lhd", 9)


def test_unknown_policy_names_those_there_are() -> None:
    with pytest.raises(UsageError, match="no eviction policy 'mru'") as caught:
        ours([(A, 1)], "mru", 3)
    assert "sieve" in caught.value.hint
