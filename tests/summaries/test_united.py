"""Unions of keys: Python's sets are the oracle."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries.united import Unions

SETS = st.lists(st.sets(st.integers(0, 2**64 - 1) | st.integers(0, 9)).map(sorted), min_size=1, max_size=5)


@given(SETS)
def test_a_union_has_every_key_once_and_knows_the_places_of_all(sets: list[list[int]]) -> None:
    union, places = Unions().of([np.array(keys, np.uint64) for keys in sets])
    assert union.tolist() == sorted(set().union(*sets))
    assert [union[where].tolist() for where in places] == sets


def test_the_same_sets_are_united_once_and_others_anew() -> None:
    unions = Unions()
    first, again, other = ([np.array(keys, np.uint64) for keys in sets] for sets in (([1], [2]), ([1], [2]), ([1], [3])))
    assert unions.of(first)[0] is unions.of(again)[0]
    assert unions.of(other)[0].tolist() == [1, 3]
