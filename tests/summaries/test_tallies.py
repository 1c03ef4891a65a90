from __future__ import annotations

from collections import Counter
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.errors import InputError
from llmtrace.summaries import tallies
from llmtrace.summaries.interning import Interner
from llmtrace.summaries.tallies import COUNT_BITS, MOST_CELLS, MOST_COUNT, Tallies, TallyStore, ranked, renumbered

KEYS, CELLS = 6, 5
MET = st.dictionaries(
    st.integers(1, KEYS), st.dictionaries(st.integers(0, CELLS - 1), st.integers(1, 3 * MOST_COUNT), min_size=1), max_size=KEYS
)


def tallied(met: dict[int, dict[int, int]]) -> Tallies:
    """As a lot has them: per key, in ascending order, its cells, and then what 12 bits do not hold of their counts."""
    flat: list[int] = []
    sizes = []
    for _, counts in sorted(met.items()):
        first = [(cell << COUNT_BITS) + min(count, MOST_COUNT) for cell, count in counts.items()]
        more = [
            (cell << COUNT_BITS) + min(count - taken, MOST_COUNT)
            for cell, count in counts.items()
            for taken in range(MOST_COUNT, count, MOST_COUNT)
        ]
        flat += first + more
        sizes.append(len(first) + len(more))
    return Tallies(np.array(sizes, np.uint32), np.array(flat, np.uint32), CELLS)


def counted(found: Tallies) -> list[list[tuple[int, int]]]:
    """Per key its cells in the order of their first tallies, each with its whole count."""
    offsets, pairs, keys = found.offsets().tolist(), found.pairs(), []
    for start, end in pairwise(offsets):
        counts: Counter[int] = Counter()
        for cell, count in pairs[start:end]:
            counts[cell] += count
        keys.append(list(counts.items()))
    return keys


def stored(lots: list[dict[int, dict[int, int]]]) -> tuple[list[int], Tallies]:
    store = TallyStore(numbers := Interner())
    for met in lots:
        store.add(numbers.add(np.array(sorted(met), np.uint64)), tallied(met))
    order, found = store.total()
    return numbers.keys[order].tolist(), found


@given(st.lists(MET, max_size=5), st.sampled_from([1, 10**6]), st.sampled_from([1, 10**6]))
def test_lots_add_up_to_what_keys_met_in_all(lots: list[dict[int, dict[int, int]]], waiting: int, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tallies, "MOST_WAITING", waiting)
        patch.setattr(tallies, "BLOCK", block)
        keys, found = stored(lots)
    expected: dict[int, Counter[int]] = {}
    for met in lots:
        for key, counts in met.items():
            expected.setdefault(key, Counter()).update(counts)
    assert keys == sorted(expected)
    assert counted(found) == [list(expected[key].items()) for key in keys]


@given(st.lists(MET, min_size=1, max_size=5), st.integers(1, 4))
def test_adding_up_in_between_changes_nothing_to_the_last_bit(lots: list[dict[int, dict[int, int]]], waiting: int) -> None:
    at_once = stored(lots)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tallies, "MOST_WAITING", waiting)
        in_between = stored(lots)
    assert in_between[0] == at_once[0]
    assert in_between[1].flat.tolist() == at_once[1].flat.tolist()
    assert in_between[1].sizes.tolist() == at_once[1].sizes.tolist()


def test_a_count_beyond_twelve_bits_takes_further_tallies_behind_the_cells_of_the_key() -> None:
    _, found = stored([{7: {1: MOST_COUNT, 0: 2}}, {7: {1: 1, 0: MOST_COUNT}}, {7: {1: MOST_COUNT}}])
    assert found.pairs() == [(1, MOST_COUNT), (0, MOST_COUNT), (1, MOST_COUNT), (1, 1), (0, 2)]


def test_cells_get_other_numbers_and_keep_their_counts() -> None:
    found = renumbered(tallied({1: {0: 3, 2: 5000}}), np.array([4, 9, 1], np.uint32), 5)
    assert found.pairs() == [(4, 3), (1, MOST_COUNT), (1, 5000 - MOST_COUNT)]


def test_cells_that_keep_their_numbers_are_not_copied() -> None:
    found = tallied({1: {0: 3, 2: 5000}})
    assert renumbered(found, np.arange(3, dtype=np.uint32), 7).flat is found.flat


@pytest.mark.parametrize("few", [0, 1 << 13])
@pytest.mark.parametrize("first", [1, 2**40])
def test_keys_ascend_in_their_order_whether_they_are_alike_or_not(first: int, few: int) -> None:
    rng = np.random.default_rng(2)
    for keys in (rng.permutation(np.arange(first, first + 500, dtype=np.uint64)), rng.integers(first, 2**64, 500, np.uint64)):
        with patch.object(tallies, "_FEW", few):
            order, ranks = ranked(keys)
        assert order.tolist() == sorted(range(keys.size), key=keys.tolist().__getitem__)
        assert keys[order][ranks].tolist() == keys.tolist()


def test_more_models_than_tallies_can_tell_apart_are_refused() -> None:
    nothing = np.empty(0, np.uint32)
    Tallies(nothing, nothing, MOST_CELLS)
    with pytest.raises(InputError, match="more than 1,048,576 different models"):
        Tallies(nothing, nothing, MOST_CELLS + 1)


@pytest.mark.parametrize("count", [MOST_COUNT, 2 * MOST_COUNT, 2 * MOST_COUNT + 1])
def test_no_tally_is_empty(count: int) -> None:
    _, found = stored([{7: {1: count - 1}}, {7: {1: 1}}])
    assert [taken for _, taken in found.pairs()] == [min(count - start, MOST_COUNT) for start in range(0, count, MOST_COUNT)]
