from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries.cells import Cells, frozen
from llmtrace.summaries.pages import Pages, listed

if TYPE_CHECKING:
    import numpy.typing as npt

PLACES = st.integers(0, 999) | st.sampled_from([0, 63, 64, 127, 128, 999])
LOTS = st.lists(st.dictionaries(st.integers(0, 40), st.lists(PLACES, max_size=12), max_size=6), max_size=5)


def flat(rows: list[list[int]], number: int = 1, dtype: type = np.uint32) -> Cells:
    counted = [sorted(Counter(row).items()) for row in rows]
    places = np.array([place for row in counted for place, _ in row], np.uint16)
    numbers: npt.NDArray[np.integer[Any]] = np.array([number * times for row in counted for _, times in row], dtype)
    return (np.cumsum([0, *map(len, counted)]), *frozen(places, numbers))


def as_lists(cells: Cells) -> list[list[int]]:
    return [array.tolist() for array in cells]


@given(LOTS)
def test_counts_are_those_of_all_lots_together(lots: list[dict[int, list[int]]]) -> None:
    pages = Pages(1000)
    for lot in lots:
        pages.add(np.array(list(lot), np.uint32), flat(list(lot.values())))
    rows = sorted({row for lot in lots for row in lot}, reverse=True)
    together = [[place for lot in lots for place in lot.get(row, [])] for row in rows]
    assert as_lists(listed([(pages, np.array(rows, np.uint32))])) == as_lists(flat(together))


def test_room_grows_with_what_is_added_and_keeps_what_was_there() -> None:
    pages, rng = Pages(1 << 16), np.random.default_rng(1)
    lots = [rng.integers(0, 1 << 16, (40, 900)) for _ in range(3)]
    for lot in lots:
        pages.add(np.arange(40, dtype=np.uint32), flat(lot.tolist()))
    assert as_lists(listed([(pages, np.arange(40, dtype=np.uint32))])) == as_lists(flat(np.hstack(lots).tolist()))


@pytest.mark.parametrize(("times", "dtype"), [(2, np.uint32), (3, np.uint64)])
def test_counts_have_64_bits_where_32_are_too_few(times: int, dtype: type) -> None:
    pages = Pages(1000)
    for _ in range(times):
        pages.add(np.zeros(1, np.uint32), flat([[7]], number=2_000_000_000))
    found = listed([(pages, np.zeros(1, np.uint32))])
    assert (found[2].tolist(), found[2].dtype) == ([times * 2_000_000_000], dtype)


def test_counts_that_might_have_outgrown_32_bits_but_did_not_come_back_in_32() -> None:
    pages = Pages(1000)
    for place in range(3):
        pages.add(np.zeros(1, np.uint32), flat([[place]], number=2_000_000_000))
    assert listed([(pages, np.zeros(1, np.uint32))])[2].dtype == np.uint32


@pytest.mark.parametrize(("cells", "dtype"), [(1 << 16, np.uint16), ((1 << 16) + 1, np.uint32)])
def test_cells_are_numbered_in_16_bits_where_they_can_be(cells: int, dtype: type) -> None:
    assert listed([(Pages(cells), np.zeros(0, np.uint32))])[1].dtype == dtype


def test_several_books_are_listed_end_to_end_and_none_is_kept() -> None:
    books = []
    for place in (5, 900):
        pages = Pages(1000)
        pages.add(np.ones(1, np.uint32), flat([[place, place]]))
        books.append((pages, np.arange(2, dtype=np.uint32)))
    assert as_lists(listed(books)) == [[0, 0, 1, 1, 2], [5, 900], [2, 2]]
    assert books == []
