"""Caches in plain Python, a use at a time, written from the words of the policies; lists are gone through for every question."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["CACHES", "SlowCache"]


class SlowCache:
    """What all have in common: `held` has the size of what is there."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.held: dict[int, int] = {}
        self.uses: dict[int, int] = {}

    def use(self, one: int, size: int) -> None:
        is_hit = one in self.held
        if is_hit:
            self.held[one] = size
            self.hit(one)
        elif size > self.capacity or not self.admits(one, size):
            return
        while sum(self.held.values()) + (0 if is_hit else size) > self.capacity:
            gone = self.victim()
            if gone is None:
                return
            del self.held[gone]
        if not is_hit:
            self.held[one] = size
            self.insert(one)

    def hit(self, one: int) -> None:
        self.uses[one] += 1

    def admits(self, _one: int, _size: int) -> bool:
        return True

    def victim(self) -> int | None:
        raise NotImplementedError

    def insert(self, one: int) -> None:
        self.uses[one] = 1


class SlowLFU(SlowCache):
    """Who has had the fewest uses goes, of several who has had that many longest."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.order: list[int] = []

    def last(self, one: int) -> None:
        if one in self.order:
            self.order.remove(one)
        self.order.append(one)

    def hit(self, one: int) -> None:
        super().hit(one)
        self.last(one)

    def victim(self) -> int | None:
        gone = min(self.order, key=lambda one: self.uses[one])
        self.order.remove(gone)
        return gone

    def insert(self, one: int) -> None:
        super().insert(one)
        self.last(one)


class SlowGDSF(SlowLFU):
    """The lowest rank goes, be it of what comes in."""

    floor = 0.0

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.ranks: dict[int, float] = {}

    def rank(self, one: int, size: int) -> None:
        self.ranks[one] = self.floor + self.uses[one] * 1e6 / max(size, 1)
        self.last(one)

    def hit(self, one: int) -> None:
        self.uses[one] += 1
        self.rank(one, self.held[one])

    def admits(self, one: int, size: int) -> bool:
        self.uses[one] = 1
        self.rank(one, size)
        return True

    def victim(self) -> int | None:
        gone = min(self.order, key=lambda one: self.ranks[one])
        self.order.remove(gone)
        self.floor = self.ranks[gone]
        return gone if gone in self.held else None

    def insert(self, one: int) -> None:
        """It was ranked as it was let in."""


class SlowS3FIFO(SlowCache):
    """Three queues, the oldest first."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.small: list[int] = []
        self.main: list[int] = []
        self.ghosts: dict[int, int] = {}
        self.small_size, self.ghost_size = int(capacity * 0.1), int(capacity * 0.9)
        self.has_evicted = self.was_ghost = False

    def total(self, queue: list[int]) -> int:
        return sum(self.held[one] for one in queue)

    def admits(self, one: int, size: int) -> bool:
        self.was_ghost = self.ghosts.pop(one, None) is not None
        return size < self.small_size or (self.was_ghost and size == self.small_size)

    def victim(self) -> int | None:
        self.has_evicted = True
        gone = self.of_small() if self.total(self.main) <= self.capacity - self.small_size else None
        return self.of_main() if gone is None else gone

    def of_small(self) -> int | None:
        while self.total(self.small) > 0:
            one = self.small.pop(0)
            if self.uses[one] < 2:
                self.name(one, self.held[one])
                return one
            self.main.append(one)
            self.uses[one] = 0
        return None

    def of_main(self) -> int | None:
        while self.main:
            one = self.main.pop(0)
            if self.uses[one] == 0:
                return one
            self.uses[one] = min(self.uses[one], 3) - 1
            self.main.append(one)
        return None

    def name(self, one: int, size: int) -> None:
        if size > self.ghost_size:
            return
        while sum(self.ghosts.values()) + size > self.ghost_size:
            del self.ghosts[next(iter(self.ghosts))]
        self.ghosts[one] = size

    def insert(self, one: int) -> None:
        is_full = not self.has_evicted and self.total(self.small) >= self.small_size
        (self.main if self.was_ghost or is_full else self.small).append(one)
        self.uses[one] = 0


CACHES: Mapping[str, Callable[[int], SlowCache]] = {"s3fifo": SlowS3FIFO, "gdsf": SlowGDSF, "lfu": SlowLFU}
