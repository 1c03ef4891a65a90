"""Requests arranged by key: sorting rows by (key, row) is the oracle."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.visits import INNER, INPUT, TIME, TOKENS, arrange

KEYS = st.sampled_from([UNKNOWN, 3, 2**64 - 1, 7])
ROWS = st.lists(st.tuples(st.integers(-50, 50), KEYS, KEYS, st.integers(-1, 9), st.integers(-1, 9)), max_size=40).map(sorted)
SCHEMA = {"time_us": pl.Int64, "outer": pl.UInt64, "inner": pl.UInt64, "input_tokens": pl.Int64, "tokens": pl.Int64}


@given(rows=ROWS)
@pytest.mark.parametrize("two_levels", [True, False])
def test_visits_stand_by_key_and_in_order(rows: list[tuple[int, int, int, int, int]], two_levels: bool) -> None:  # noqa: FBT001
    visits = arrange(pl.DataFrame(rows, SCHEMA, orient="row"), "outer", "inner" if two_levels else None)
    known = sorted((row for row in rows if row[1] != UNKNOWN), key=lambda row: row[1])
    inner = visits.inner.tolist()
    table = [(row[TIME], inner[row[INNER]] if two_levels else None, row[INPUT], row[TOKENS]) for row in visits.table.tolist()]
    assert table == [(time, inner if two_levels else None, max(a, 0), max(b, 0)) for time, _, inner, a, b in known]
    assert visits.keys.tolist() == sorted({row[1] for row in known})
    counts = Counter(row[1] for row in known)
    assert visits.offsets.tolist() == [sum(counts[key] for key in counts if key < limit) for limit in [*sorted(counts), 2**64]]
    if two_levels:
        requests = Counter(row[2] for row in rows)
        assert dict(zip(inner, visits.requests.tolist(), strict=True)) == requests
        assert inner == sorted(requests)
    else:
        assert visits.requests.tolist() == [len(rows)]
