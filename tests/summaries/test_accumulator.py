"""A counter of states: lists of places stand for states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from llmtrace.summaries.accumulator import Counter, Tables

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.parametrize(("base", "largest"), [(2, 8), (3, 9), (4, 4)])
def test_neighbours_of_equal_weight_are_combined_in_order(base: int, largest: int) -> None:
    seen: list[list[int]] = []

    def combine(states: Sequence[list[int]]) -> list[int]:
        seen.append([len(state) for state in states])
        joined = [place for state in states for place in state]
        assert joined == list(range(joined[0], joined[0] + len(joined)))
        return joined

    counter = Counter(combine, base)
    for place in range(11):
        counter.add([place])
    assert all(len(set(lengths)) == 1 and len(lengths) == base for lengths in seen)
    assert counter.total() == list(range(11))
    assert max(map(max, seen)) == largest


def test_each_table_has_its_own_accumulator() -> None:
    tables = Tables({"joined": Counter("".join), "longest": Counter(lambda words: max(words, key=len))})
    for joined, longest in (("a", "ab"), ("b", "abc"), ("c", "a")):
        tables.add({"joined": joined, "longest": longest, "other": "z"})
    assert tables.total() == {"joined": "abc", "longest": "abc"}
