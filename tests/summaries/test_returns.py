"""Keys of two levels and their first and last requests: a dictionary is the oracle, whatever the cut."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import returns
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.trails import Limits
from llmtrace.summaries.united import Unions
from llmtrace.summaries.visits import arrange

if TYPE_CHECKING:
    from collections.abc import Sequence

    Rows = Sequence[tuple[int, int, int, int, int]]

LIMITS = Limits(2, 3, profiled=True)
TOKENS = st.integers(-1, 9) | st.integers(2**32 - 2, 2**32) | st.just(2**63 - 1)
KEYS = st.sampled_from([UNKNOWN, 3, 7, 2**64 - 1])
ROWS = st.lists(st.tuples(st.integers(-50, 50), KEYS, KEYS, TOKENS, TOKENS), max_size=40).map(sorted)
SCHEMA = {"time_us": pl.Int64, "outer": pl.UInt64, "inner": pl.UInt64, "input_tokens": pl.Int64, "tokens": pl.Int64}


def state_of(rows: Rows) -> dict[str, pl.DataFrame]:
    return returns.summarise(arrange(pl.DataFrame(rows, SCHEMA, orient="row"), "outer", "inner"), LIMITS)


def states_of(rows: Rows, cuts: list[int]) -> list[dict[str, pl.DataFrame]]:
    borders = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    return [state_of(rows[start:end]) for start, end in pairwise(borders)]


@given(rows=ROWS, cuts=st.lists(st.integers(0, 40), max_size=3))
def test_pairs_hold_the_first_and_the_last_request_of_each_key(rows: Rows, cuts: list[int]) -> None:
    expected: dict[tuple[int, int], list[int]] = {}
    for time, outer, inner, input_tokens, tokens in rows:
        if UNKNOWN not in (outer, inner):
            first = expected.setdefault((outer, inner), [time, time, max(input_tokens, 0), 0])
            first[1], first[3] = time, max(tokens, 0)
    state = returns.combine(states_of(rows, cuts), LIMITS, Unions())
    inner_keys = state["inner"]["key"].to_list()
    outer_keys = [key for key, pairs in state["outer"].iter_rows() for _ in range(pairs)]
    assert state["outer"]["key"].to_list() == sorted({row[1] for row in rows} - {UNKNOWN})
    first_input, last = (column.tolist() for column in returns.tokens_of(state))
    found = [
        ((outer_keys[row], inner_keys[inner]), [first_us, last_us, first_input[row], last[row]])
        for row, (inner, first_us, last_us) in enumerate(state["pairs"].select("inner", "first_us", "last_us").iter_rows())
    ]
    assert found == sorted(expected.items(), key=lambda item: item[0][0])


@given(rows=ROWS, cuts=st.lists(st.integers(0, 40), max_size=3))
def test_a_state_is_that_of_the_whole(rows: Rows, cuts: list[int]) -> None:
    combined, whole = returns.combine(states_of(rows, cuts), LIMITS, Unions()), state_of(rows)
    for name, schema in returns.SCHEMAS.items():
        assert_frame_equal(combined[name], whole[name])
        assert dict(whole[name].schema) == dict(schema)


def test_an_excess_of_tokens_is_kept_beside_the_pairs() -> None:
    state = state_of([(0, 3, 3, 5, 2**40), (1, 3, 7, 2**32 - 1, 6), (2, 7, 7, 1, 2)])
    assert state["pairs"].select("first_input_tokens", "last_tokens").rows() == [(5, 2**32 - 1), (2**32 - 1, 6), (1, 2)]
    assert state["excess"].rows() == [(0, 5, 2**40), (1, 2**32 - 1, 6)]


def test_release_adds_the_gaps_of_keys_that_are_eligible_late() -> None:
    limits = Limits(10, 64, profiled=True)
    rows = [(time, key, 1, 0, 0) for time, key in ((0, 3), (0, 7), (5, 3), (6, 3), (9, 7))]
    state = returns.summarise(arrange(pl.DataFrame(rows, SCHEMA, orient="row"), "outer", "inner"), limits)
    assert state["cells"]["released"].sum() == 0
    late = returns.release(state, state["pairs"]["positive"].to_numpy() >= 2, 64)
    assert late["gaps"].to_list() == state["cells"]["gaps"].to_list()
    assert dict(late.select("cell", "released").iter_rows()) == {1: 1, 5: 1, 9: 0}
