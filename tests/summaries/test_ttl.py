"""Steps, cells and weights of gaps: `bisect`, unlimited Python integers and plain comparisons are the oracle."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import ttl
from llmtrace.summaries.histogram import bucket_indices
from llmtrace.summaries.ttl import TTLS_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    Weighed = Sequence[tuple[int, int, int]]

TTLS = TTLS_US.tolist()
LONGEST = 2**59
GAPS = (
    st.integers(0, 3_000)
    | st.integers(0, LONGEST)
    | st.sampled_from(TTLS).flatmap(lambda limit: st.integers(limit - 2, limit + 2))
    | st.integers(1, 58).flatmap(lambda power: st.integers(2**power - 2, 2**power + 2))
)
WEIGHED = st.lists(st.tuples(GAPS, st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)), max_size=40)


def weigh(rows: Weighed) -> tuple[list[int], pl.DataFrame]:
    gaps, input_tokens, tokens = np.array(rows, np.int64).reshape(-1, 3).T.copy()
    sums = ttl.no_sums()
    cells, weights = ttl.weigh(gaps, input_tokens, tokens, sums), ttl.weights(sums)
    return cells.tolist(), weights


def cell_of(gap: int) -> int:
    return weigh([(gap, 0, 0)])[0][0]


def test_the_grid_has_the_customary_times_and_ten_steps_to_the_decade() -> None:
    seconds = {0.001, 0.1, 1, 10, 60, 300, 900, 3_600, 43_200, 86_400, 604_800, 1e8}
    assert seconds.issubset(limit / 1e6 for limit in TTLS)
    assert sorted(set(TTLS)) == TTLS
    assert all(after / before < 1.3 for before, after in pairwise(TTLS))


@given(GAPS)
def test_the_step_of_a_gap_is_the_first_ttl_that_is_as_long(gap: int) -> None:
    assert ttl.steps(np.array([cell_of(gap)])).tolist() == [bisect_left(TTLS, gap)]


@given(GAPS, GAPS)
def test_cells_follow_the_order_of_gaps_and_tell_steps_and_buckets_apart(one: int, other: int) -> None:
    one, other = sorted((one, other))
    assert cell_of(one) <= cell_of(other)
    buckets = bucket_indices(np.array([one, other]), ttl.BITS)
    same = buckets[0] == buckets[1] and bisect_left(TTLS, one) == bisect_left(TTLS, other)
    assert (cell_of(one) == cell_of(other)) == same


@given(GAPS)
def test_a_cell_starts_at_its_shortest_gap(gap: int) -> None:
    [start] = ttl.cell_starts(np.array([cell_of(gap)])).tolist()
    assert start <= gap
    assert cell_of(start) == cell_of(gap)
    assert start == 0 or cell_of(start - 1) < cell_of(gap)


@given(WEIGHED)
def test_weights_are_exact_whatever_their_size(rows: Weighed) -> None:
    expected: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for gap, input_tokens, tokens in rows:
        sums = expected[bisect_left(TTLS, gap)]
        for place, value in enumerate((1, input_tokens, tokens, tokens * gap)):
            sums[place] += value
    assert weigh(rows)[1].rows() == [(step, *sums) for step, sums in sorted(expected.items())]


@given(WEIGHED, st.integers(0, 40))
def test_weights_of_some_gaps_and_of_the_others_are_those_of_all(rows: Weighed, cut: int) -> None:
    parts = [weigh(rows[:cut])[1], weigh(rows[cut:])[1]]
    assert_frame_equal(ttl.combine(parts), weigh(rows)[1])


def test_sums_of_several_threads_carry_over_into_their_upper_halves() -> None:
    most, sums = 2**63 - 1, ttl.no_sums()
    tokens = np.full(2, most)
    ttl.weigh(np.array([1_000, 1_000]), tokens, tokens, sums)
    [row] = ttl.weights(ttl.added_up([sums, sums, sums])).drop("step").rows()
    assert row == (6, 6 * most, 6 * most, 6 * most * 1_000)
