"""Dense integers for keys: Python's dictionaries are the oracle."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries.interning import Interner, first_rows, intern

KEYS = st.lists(st.integers(0, 5) | st.integers(0, 2**64 - 1), max_size=60)


@given(st.lists(KEYS, max_size=4))
def test_keys_are_numbered_by_first_appearance_whatever_the_lots(lots: list[list[int]]) -> None:
    interner = Interner()
    expected: dict[int, int] = {}
    for lot in lots:
        ids = interner.add(np.array(lot, np.uint64)).tolist()
        assert ids == [expected.setdefault(key, len(expected)) for key in lot]
    assert interner.keys.tolist() == list(expected)


def test_an_interner_grows_and_meets_keys_that_collide() -> None:
    """The products of the second kind with the constant that spreads keys share their upper bits."""
    inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)
    alike = [product * inverse % 2**64 for product in range(3000)]
    keys = np.array([*range(20_000), *(key for key in alike if key >= 20_000)], np.uint64)
    interner = Interner()
    first, again = interner.add(keys), interner.add(keys[::-1])
    assert interner.keys.tolist() == keys.tolist()
    assert first.tolist() == list(range(keys.size)) == again[::-1].tolist()


def test_millions_of_keys_are_numbered() -> None:
    keys, interner = np.arange(1, 3_000_000, dtype=np.uint64) * np.uint64(2**20 + 7), Interner()
    ids = interner.add(np.concatenate([keys, keys[::1000]]))
    assert (ids[: keys.size] == np.arange(keys.size)).all()
    assert (ids[keys.size :] == np.arange(0, keys.size, 1000)).all()
    assert (interner.keys == keys).all()


@given(KEYS)
def test_first_rows_are_where_keys_appear_first(keys: list[int]) -> None:
    ids, distinct = intern(np.array(keys, np.uint64))
    assert first_rows(ids, distinct.size).tolist() == [keys.index(key) for key in dict.fromkeys(keys)]
