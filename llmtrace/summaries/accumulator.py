"""Bringing states together as they come, in order of time.

The plain way is `Counter`: it combines as a binary counter counts, neighbours of equal weight first, so that a big state is
combined seldom and only a few are alive. A summary that can take one state after the other into a mutable whole, at the cost of
the new one alone, has an accumulator of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

State = TypeVar("State")

__all__ = ["Accumulator", "Counter", "Joint", "Tables"]


class Accumulator(Protocol[State]):
    """Takes the states of neighbouring parts and gives that of the whole."""

    def add(self, state: State) -> None:
        """Take the state of the next part; it is not used again by whoever gave it."""

    def total(self) -> State:
        """The state of all parts, once at the end; there has been one at least."""

    def together(self, states: Iterable[State]) -> State:
        """Take the states of all parts and give that of the whole.

        >>> Counter("".join).together("abc")
        'abc'
        """
        for state in states:
            self.add(state)
        return self.total()


class Counter(Accumulator[State]):
    """A counter of states: each entry covers a power of `base` of neighbouring parts.

    What combines them gets a list that it may empty, to let go of states as soon as it has done with them.

    >>> counter = Counter("".join)
    >>> for part in "abcde":
    ...     counter.add(part)
    >>> counter.total()
    'abcde'
    """

    def __init__(self, combine: Callable[[list[State]], State], base: int = 2) -> None:
        """Count with what combines neighbouring states, and how many of equal weight it waits for."""
        self._combine, self._base = combine, base
        self._entries: list[tuple[int, State]] = []

    def add(self, state: State) -> None:
        """Take the state of the next part."""
        self._entries.append((1, state))
        while len(equal := self._entries[-self._base :]) == self._base and equal[0][0] == equal[-1][0]:
            weight, states = equal[0][0] * self._base, [state for _, state in equal]
            del self._entries[-self._base :], equal
            self._entries.append((weight, self._combine(states)))

    def total(self) -> State:
        """The state of all parts."""
        states = [state for _, state in self._entries]
        self._entries.clear()
        return self._combine(states)


class Tables(Accumulator[dict[str, State]]):
    """An accumulator for each table of a state.

    >>> tables = Tables({"names": Counter("".join)})
    >>> tables.add({"names": "a"})
    >>> tables.total()
    {'names': 'a'}
    """

    def __init__(self, accumulators: Mapping[str, Accumulator[State]]) -> None:
        """Bring the tables of these names together, each by its own."""
        self._accumulators = accumulators

    def add(self, state: dict[str, State]) -> None:
        """Take the state of the next part."""
        for name, accumulator in self._accumulators.items():
            accumulator.add(state[name])

    def total(self) -> dict[str, State]:
        """The state of all parts."""
        return {name: accumulator.total() for name, accumulator in self._accumulators.items()}


class Joint(Accumulator[dict[str, State]]):
    """Several accumulators that each take states whole, and give some tables of it, one after the other.

    >>> joint = Joint([Tables({"names": Counter("".join)}), Tables({"places": Counter("".join)})])
    >>> joint.add({"names": "a", "places": "b"})
    >>> joint.total()
    {'names': 'a', 'places': 'b'}
    """

    def __init__(self, accumulators: Sequence[Accumulator[dict[str, State]]]) -> None:
        """Bring states together by these."""
        self._accumulators = list(accumulators)

    def add(self, state: dict[str, State]) -> None:
        """Take the state of the next part."""
        for accumulator in self._accumulators:
            accumulator.add(state)

    def total(self) -> dict[str, State]:
        """The state of all parts."""
        tables: dict[str, State] = {}
        while self._accumulators:
            # What one held is free before the next gives its tables.
            tables.update(self._accumulators.pop(0).total())
        return tables
