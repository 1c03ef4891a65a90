"""Requests as they came or their keys followed: dictionaries are the oracle, whatever the cut, and however many may wait."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import following, returns, ttl
from llmtrace.summaries.following import Following
from llmtrace.summaries.interning import intern
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.return_store import Returns
from llmtrace.summaries.trails import Limits
from llmtrace.summaries.visits import Chunk, deal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Rows = Sequence[tuple[int, int, int, int, int]]
    Tables = dict[str, pl.DataFrame]

LIMITS = Limits(2, 3, profiled=True)
TOKENS = st.integers(-1, 9) | st.integers(2**32 - 2, 2**32) | st.just(2**63 - 1)
OUTER, INNER = (st.sampled_from([UNKNOWN, *keys]) for keys in ([3, 1 << 60, 2**64 - 1], [5, 6, 2**64 - 2]))
ROWS = st.lists(st.tuples(st.integers(-50, 50), OUTER, INNER, TOKENS, TOKENS), max_size=40).map(sorted)
CUTS = st.lists(st.integers(0, 40), max_size=3)
WAITING = st.sampled_from([0, 5, 1 << 20])
GROUPS = st.sampled_from([1, 4, 1 << 15])


def state_of(rows: Rows) -> Tables:
    """The state of a part as it comes: time, outer and inner key, input and output tokens of each request."""
    times, outer, inner, inputs, outputs = zip(*rows, strict=True) if rows else ((),) * 5
    ids, distinct = intern(np.array(inner, np.uint64))
    numbers = [np.array(column, np.int64) for column in (times, inputs, outputs)]
    counts = np.bincount(ids, minlength=distinct.size)
    return {
        "visits": deal([Chunk(np.array(outer, np.uint64), ids, *numbers)]),
        "inner": pl.DataFrame({"key": distinct, "requests": counts}, dict(following.INNER_SCHEMA)),
        **returns.nothing(),
    }


def states_of(rows: Rows, cuts: list[int]) -> list[Tables]:
    borders = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    return [state_of(rows[start:end]) for start, end in pairwise(borders)]


def together(states: Sequence[Tables], finished: Callable[[Following], Tables] = Following.total) -> Tables:
    keys = Following("visits", [Returns(LIMITS)])
    for state in states:
        keys.add(state)
    return finished(keys)


def tokens_of(state: Tables) -> list[list[int]]:
    """Input tokens of the first and tokens of the last request of each key."""
    return [returns.tokens_of(state, name).tolist() for name in returns.TOKENS]


def assert_same(left: Tables, right: Tables) -> None:
    assert left.keys() == right.keys()
    for name in left:
        assert_frame_equal(left[name], right[name])


@given(rows=ROWS, cuts=CUTS, waiting=WAITING, group=GROUPS)
def test_pairs_hold_the_first_and_the_last_request_of_each_key(rows: Rows, cuts: list[int], waiting: int, group: int) -> None:
    expected: dict[tuple[int, int], list[int]] = {}
    for time, outer, inner, inputs, outputs in rows:
        if UNKNOWN not in (outer, inner):
            first = expected.setdefault((outer, inner), [time, time, max(inputs, 0), 0])
            first[1], first[3] = time, min(max(inputs, 0) + max(outputs, 0), 2**63 - 1)
    with patch.object(following, "MOST_WAITING", waiting), patch.object(following, "GROUP_REQUESTS", group):
        state = together(states_of(rows, cuts), Following.followed)
    inner_keys = state["inner"]["key"].to_list()
    outer_keys = [key for key, pairs in state["outer"].iter_rows() for _ in range(pairs)]
    assert state["outer"]["key"].to_list() == sorted({row[1] for row in rows} - {UNKNOWN})
    first_input, last = tokens_of(state)
    found = [
        ((outer_keys[row], inner_keys[inner]), [first_us, last_us, first_input[row], last[row]])
        for row, (inner, first_us, last_us) in enumerate(state["pairs"].select("inner", "first_us", "last_us").iter_rows())
    ]
    assert found == sorted(expected.items(), key=lambda item: item[0][0])
    assert dict(state["inner"].iter_rows()) == Counter(row[2] for row in rows)
    assert inner_keys == sorted(inner_keys)
    assert state["visits"].is_empty()


@given(rows=ROWS, cuts=CUTS, waiting=WAITING, group=GROUPS)
def test_a_state_does_not_depend_on_cuts_and_groups(rows: Rows, cuts: list[int], waiting: int, group: int) -> None:
    with patch.object(following, "MOST_WAITING", waiting):
        whole, states = together([state_of(rows)]), states_of(rows, cuts)
    with patch.object(following, "MOST_WAITING", waiting), patch.object(following, "GROUP_REQUESTS", group):
        assert_same(together(states), whole)
        assert_same(reduce(lambda left, right: together([left, right]), states, state_of([])), whole)
        assert_same(reduce(lambda right, left: together([left, right]), reversed(states), state_of([])), whole)
        assert_same(together(states, Following.followed), together([whole], Following.followed))
    for name, schema in returns.SCHEMAS.items():
        assert dict(whole[name].schema) == dict(schema)


def test_trails_are_those_of_keys_in_order_whatever_the_groups() -> None:
    """Of three outer keys, each in a group of its own, the first has a histogram, the second two gaps and the third one."""
    requests = {3: 5, 1 << 62: 3, 2**64 - 1: 2}
    rows = sorted((10 * time, outer, 5, 1, 1) for outer, count in requests.items() for time in range(count))
    with patch.object(following, "GROUP_REQUESTS", 1):
        state = together([state_of(rows)], Following.followed)
    cell = int(ttl.cell_of(10))
    assert state["pairs"]["positive"].to_list() == [3, 2, 1]
    assert state["held"]["cell"].to_list() == [cell] * 3
    assert state["profiles"]["counts"].to_list() == [[4]]


@given(rows=ROWS, cuts=CUTS, group=GROUPS)
def test_first_requests_are_left_out_where_nothing_comes_before(rows: Rows, cuts: list[int], group: int) -> None:
    tables = []
    for is_all in (False, True):
        keys = Following("visits", [Returns(LIMITS, is_all=is_all)])
        with patch.object(following, "MOST_WAITING", 0), patch.object(following, "GROUP_REQUESTS", group):
            for state in states_of(rows, cuts):
                keys.add(state)
            tables.append(keys.followed())
    firsts = {"first_us", "first_input_tokens"}
    excess = tables[0].pop("excess")
    wide = tables[1].pop("excess")
    assert excess.filter(pl.col("last_tokens") >= returns.EXCESS).drop("first_input_tokens").equals(wide)
    assert_same({name: table.drop(firsts, strict=False) for name, table in tables[0].items()}, tables[1])


@given(rows=ROWS, cuts=CUTS)
def test_requests_wait_while_they_are_few(rows: Rows, cuts: list[int]) -> None:
    known = sum(row[1] != UNKNOWN for row in rows)
    for most in (known - 1, known):
        with patch.object(following, "MOST_WAITING", most):
            assert together(states_of(rows, cuts))["visits"].height == (known if known <= most else 0)


def test_an_excess_of_tokens_is_kept_beside_the_pairs() -> None:
    rows = [(0, 3, 5, 5, 2**40), (1, 3, 6, 2**32 - 1, 0), (2, 1 << 60, 6, 1, 2), (3, 2**64 - 1, 6, 1, 2**40)]
    state = together([state_of(rows)], Following.followed)
    tokens = state["pairs"].select("first_input_tokens", "last_tokens").rows()
    assert tokens == [(5, 2**32 - 1), (2**32 - 1, 2**32 - 1), (1, 3), (1, 2**32 - 1)]
    assert state["excess"].rows() == [(0, 5, 2**40 + 5), (1, 2**32 - 1, 2**32 - 1), (3, 1, 2**40 + 1)]


def test_the_positive_gaps_of_keys_that_are_not_eligible_are_not_released() -> None:
    rows = [(time, key, 5, 0, 0) for time, key in ((0, 3), (0, 1 << 60), (5, 3), (5, 3), (6, 3), (9, 1 << 60))]
    state = together([state_of(rows)], Following.followed)
    found = returns.released(state, state["pairs"]["positive"].to_numpy() >= LIMITS.threshold, LIMITS.limit)
    assert found.rows() == [(0, 1, 0), (1, 1, 1), (5, 1, 1), (9, 1, 0)]


@pytest.mark.parametrize("waiting", [0, 1 << 20])
def test_tokens_stay_as_large_as_they_were_where_those_that_follow_are_small(waiting: int) -> None:
    rows = [(0, 3, 5, 2**40, 2**41), (1, 1 << 60, 5, 2**40, 0), (2, 1 << 60, 5, 1, 1)]
    with patch.object(following, "MOST_WAITING", waiting):
        state = together(states_of(rows, [2]), Following.followed)
    assert tokens_of(state) == [[2**40, 2**40], [3 * 2**40, 2]]


@given(rows=ROWS, keys=st.integers(1, 5))
def test_slices_of_keys_have_the_tokens_of_all(rows: Rows, keys: int) -> None:
    state = together([state_of(rows)], Following.followed)
    some = [tokens_of(own) for own in returns.slices(state, keys)]
    whole = tokens_of(state)
    assert [[value for own in some for value in own[side]] for side in (0, 1)] == whole


def test_a_gap_across_a_border_weighs_the_tokens_of_both_its_requests() -> None:
    with patch.object(following, "MOST_WAITING", 0):
        left, right = (together([state_of([row])]) for row in ((0, 3, 5, 7, 1), (10, 3, 5, 100, 2)))
        state = together([left, right])
    assert state["weights"].row(0)[1:] == (1, 100, 8, 80)
    assert state["pairs"].select("first_us", "last_us", "positive").rows() == [(0, 10, 1)]


def test_the_shortest_gap_across_a_border_is_held() -> None:
    with patch.object(following, "MOST_WAITING", 0):
        state = together([together([state_of([(time, 3, 5, 1, 1)])]) for time in (0, 1)])
    assert state["held"]["cell"].to_list() == [int(ttl.cell_of(1))]


def test_keys_of_one_group_are_not_those_of_the_next_on_the_same_thread() -> None:
    rows = [(0, 3, 5, 1, 1), (1, 3, 6, 1, 1), (2, 1 << 62, 5, 1, 1), (3, 1 << 62, 7, 1, 1)]
    with patch.object(following, "_MOST_THREADS", 1), patch.object(following, "GROUP_REQUESTS", 1):
        state = together([state_of(rows)], Following.followed)
    assert state["outer"].rows() == [(3, 2), (1 << 62, 2)]
    assert state["cells"].is_empty()
