"""Groups within runs against a dictionary for each run."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries.within import added, counted, greatest, mixed, runs_of, within

KEYS = st.lists(st.sampled_from([0, 1, 2, 3, 2**63, 2**64 - 1]), max_size=80)
CUTS = st.lists(st.integers(0, 80), max_size=6)


@given(KEYS, CUTS)
def test_equal_keys_of_a_run_are_a_group(keys: list[int], cuts: list[int]) -> None:
    borders = [0, *sorted(min(cut, len(keys)) for cut in cuts), len(keys)]
    ids: list[int] = []
    firsts: list[int] = []
    ends = [0]
    for start, end in pairwise(borders):
        groups: dict[int, int] = {}
        for row in range(start, end):
            if keys[row] not in groups:
                groups[keys[row]] = len(firsts)
                firsts.append(row)
            ids.append(groups[keys[row]])
        ends.append(len(firsts))
    found = within(np.array(keys, np.uint64), np.array(borders))
    assert (found.ids.tolist(), found.firsts.tolist(), found.borders.tolist()) == (ids, firsts, ends)


def test_a_long_run_of_different_keys_fills_its_table_and_leaves_nothing_to_the_next() -> None:
    keys = np.arange(70_000, dtype=np.uint64)
    found = within(np.concatenate([keys, keys[:3]]), np.array([0, 70_000, 70_003]))
    assert found.ids.tolist() == list(range(70_003))
    assert found.borders.tolist() == [0, 70_000, 70_003]


def test_no_rows_are_no_groups() -> None:
    found = within(np.empty(0, np.uint64), np.zeros(1, np.int64))
    assert (found.ids.size, found.firsts.size, found.borders.tolist()) == (0, 0, [0])
    assert runs_of(np.empty(0, np.int64)).tolist() == [0]


def test_values_of_a_group_are_summed_counted_and_compared() -> None:
    ids, values = np.array([2, 0, 2, 2], np.uint32), np.array([5, 0, 2**62, 7])
    assert added(ids, values, 4).tolist() == [0, 0, 2**62 + 12, 0]
    assert greatest(ids, values, 4).tolist() == [0, 0, 2**62, 0]
    assert counted(ids, 4).tolist() == [1, 0, 3, 0]


def test_mixed_keys_differ_where_one_of_them_does() -> None:
    random = np.random.default_rng(5).integers(1, 2**64, (3, 50), dtype=np.uint64)
    every = [key.ravel() for key in np.meshgrid(*random)]
    assert np.unique(mixed(*every)).size == 50**3
    assert np.unique(mixed(random[0], random[1])).size == 50
    assert (mixed(random[0], random[1]) != mixed(random[1], random[0])).all()
