from __future__ import annotations

from itertools import pairwise

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries import by_key
from llmtrace.summaries.keys import UNKNOWN

ROWS = st.lists(st.tuples(st.integers(-9, 9), st.sampled_from([UNKNOWN, 1, 5, 2**64 - 1])), max_size=40).map(sorted)


@given(ROWS)
def test_arrivals_stand_by_key_in_order_of_time(rows: list[tuple[int, int]]) -> None:
    frame = pl.LazyFrame(rows, {"timestamp": pl.Int64, "model_key": pl.UInt64}, orient="row")
    frame = frame.with_columns(pl.col("timestamp").cast(pl.Datetime("us")))
    found = by_key.plan(frame, "model_key").collect()
    keys = sorted({key for _, key in rows if key != UNKNOWN})
    assert found.rows() == [(key, [time for time, of in rows if of == key]) for key in keys]
    text = frame.with_columns(pl.col("model_key").cast(pl.String).alias("model"))
    named = by_key.plan(text, "model_key", "model").collect()
    assert named["name"].to_list() == [str(key) for key in keys]
    read, times, offsets = by_key.read(found)
    assert read.tolist() == keys
    assert [times[start:end].tolist() for start, end in pairwise(offsets)] == found["arrivals"].to_list()


KEYS = st.lists(st.sampled_from([1, 2, 5, 2**64 - 1]), unique=True).map(sorted)


@given(st.lists(KEYS, min_size=1, max_size=4))
def test_names_of_all_parts_are_one_to_a_key(parts: list[list[int]]) -> None:
    frames = [
        pl.DataFrame({"key": keys, "name": [str(key) for key in keys]}, {"key": pl.UInt64, "name": pl.String}) for keys in parts
    ]
    expected = sorted({key for keys in parts for key in keys})
    assert by_key.combine_names(frames).rows() == [(key, str(key)) for key in expected]
