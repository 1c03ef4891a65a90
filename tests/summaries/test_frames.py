"""Arrays as frames and back, against NumPy and Polars themselves."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries.frames import frame_of, gathered, moments


@given(st.lists(st.lists(st.none() | st.text(max_size=20), min_size=1), min_size=1, max_size=4), st.data())
def test_values_are_gathered_over_chunks(chunks: list[list[str | None]], data: st.DataObject) -> None:
    column = pl.concat([pl.Series("name", chunk, dtype=pl.String) for chunk in chunks], rechunk=False)
    flat = [value for chunk in chunks for value in chunk]
    rows = data.draw(st.lists(st.integers(0, len(flat) - 1)))
    found = gathered(column, np.array(rows, np.int64))
    assert found.to_list() == [flat[row] for row in rows]
    assert found.dtype == pl.String
    assert column.n_chunks() == len(chunks)


def test_of_an_empty_column_nothing_is_gathered() -> None:
    assert gathered(pl.Series("name", [], dtype=pl.String), np.empty(0, np.int64)).to_list() == []


def test_columns_of_a_frame_are_the_arrays() -> None:
    moment = datetime(2025, 4, 11, 4)
    frame = frame_of({"time": moments(1_744_344_000_000_000, 2), "key": np.array([1, 2**64 - 1], np.uint64)})
    assert frame.rows() == [(moment, 1), (moment, 2**64 - 1)]
    assert dict(frame.schema) == {"time": pl.Datetime("us"), "key": pl.UInt64()}
