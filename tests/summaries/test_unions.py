"""Unions of sets of keys: Python's sets are the oracle."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries.unions import unite

KEYS = st.sets(st.integers(0, 9) | st.integers(2**64 - 3, 2**64 - 1), max_size=8)


@given(sets=st.lists(KEYS, min_size=1, max_size=4))
def test_a_union_has_every_key_once_and_knows_the_place_of_each(sets: list[set[int]]) -> None:
    union = unite([np.array(sorted(one), np.uint64) for one in sets])
    assert union.keys.tolist() == sorted(set().union(*sets))
    for one, places in zip(sets, union.places, strict=True):
        assert [int(union.keys[place]) for place in places] == sorted(one)
