"""Parquet files that other readers can read."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl
import pyarrow.parquet as pq

from llmtrace.report.parquet import dumps

if TYPE_CHECKING:
    from llmtrace.result import Result


def test_another_reader_reads_the_same() -> None:
    table = pl.DataFrame(
        {
            "time": [datetime(2025, 4, 1, 6, 0, 0, 7), None],
            "narrow": pl.Series([2**62, None], dtype=pl.Int128),
            "wide": pl.Series([2**70, None], dtype=pl.Int128),
            "share": [0.1 + 0.2, None],
            "model": ["a", None],
        }
    )
    read = pq.read_table(io.BytesIO(dumps(table))).to_pylist()
    assert read == [
        {
            "time": datetime(2025, 4, 1, 6, 0, 0, 7, tzinfo=UTC),
            "narrow": 2**62,
            "wide": 2**70,
            "share": 0.30000000000000004,
            "model": "a",
        },
        dict.fromkeys(table.columns),
    ]


def test_every_table_of_a_year(year: Result, hour: Result) -> None:
    for table in (*year.tables.values(), *hour.tables.values()):
        read = pl.read_parquet(dumps(table))
        marked = [name for name, dtype in read.schema.items() if isinstance(dtype, pl.Datetime)]
        assert all(read.schema[name] == pl.Datetime("us", "UTC") for name in marked)
        assert read.with_columns(pl.col(marked).dt.replace_time_zone(None)).equals(table)
