from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.synth.ahead import ahead, aside, beside

if TYPE_CHECKING:
    from collections.abc import Generator


@given(st.lists(st.integers(), max_size=20), st.integers(1, 5))
def test_nothing_is_lost_and_the_order_stays(items: list[int], most: int) -> None:
    assert list(ahead((item for item in items), most)) == items


@given(st.lists(st.integers(), max_size=20))
def test_work_beside_loses_nothing_either(items: list[int]) -> None:
    assert list(beside(str, items)) == [str(item) for item in items] == [aside(str, item) for item in items]


def test_work_is_on_a_thread_that_ends_with_it() -> None:
    before, here = threading.active_count(), threading.get_ident()

    def thread(_: int) -> int:
        return threading.get_ident()

    made = beside(thread, range(100))
    assert here not in {next(made), next(made), aside(thread, 0)}
    made.close()
    assert threading.active_count() == before


def test_no_more_are_made_than_allowed_and_none_after_the_end() -> None:
    made: list[int] = []
    ended = threading.Event()

    def numbers() -> Generator[int]:
        try:
            for number in range(100):
                made.append(number)
                yield number
        finally:
            ended.set()

    before = threading.active_count()
    items = ahead(numbers(), most=3)
    assert [next(items), next(items)] == [0, 1]
    items.close()
    assert ended.is_set()
    assert 2 <= len(made) <= 5
    assert made == list(range(len(made)))
    assert threading.active_count() == before


def test_what_goes_wrong_on_the_thread_is_told_where_the_items_are_used() -> None:
    def numbers() -> Generator[int]:
        yield 1
        raise MemoryError

    items = ahead(numbers(), most=2)
    assert next(items) == 1
    with pytest.raises(MemoryError):
        next(items)
    assert list(items) == []
