from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import sums
from llmtrace.summaries.intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECOND = Interval.parse("1s")
SCHEMA = {"timestamp": pl.Int64, "key": pl.UInt64, "tokens": pl.Int64}
VALUES = st.none() | st.integers(0, 3) | st.sampled_from([2**62, 2**63 - 1])
ROWS = st.lists(st.tuples(st.integers(0, 4_000_000), st.integers(0, 3), VALUES), max_size=30)


def frame_of(rows: list[tuple[int, int, int | None]]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, SCHEMA, orient="row")
    return frame.with_columns(pl.col("timestamp").cast(pl.Datetime("us"))).sort("timestamp", maintain_order=True)


def naive(frame: pl.DataFrame, *, by_time: bool, by_key: bool) -> list[tuple[Any, ...]]:
    groups: dict[tuple[Any, ...], list[int | None]] = defaultdict(list)
    for time, key, tokens in frame.iter_rows():
        label = ((time.replace(microsecond=0),) if by_time else ()) + ((key,) if by_key else ())
        groups[label].append(tokens)
    known = {label: [value for value in values if value is not None] for label, values in groups.items()}
    return [(*label, len(groups[label]), sum(known[label]), len(known[label])) for label in sorted(groups)]


@given(ROWS, st.sampled_from(["", "time", "key", "time and key"]), st.lists(st.integers(0, 30), max_size=3))
def test_sums_are_those_of_python_integers_however_the_rows_are_cut(
    of_parts: Callable[..., list[pl.DataFrame]],
    rows: list[tuple[int, int, int | None]],
    grouping: str,
    cuts: list[int],
) -> None:
    frame = frame_of(rows)
    by_time, by_key = "time" in grouping, "key" in grouping
    summary = sums.summary(["tokens"], by="key" if by_key else None, interval=SECOND if by_time else None)
    expected = naive(frame, by_time=by_time, by_key=by_key) or ([] if by_time or by_key else [(0, 0, 0)])
    for found in of_parts(summary, sums.combine, frame, cuts):
        assert found.rows() == expected
        assert found.schema["tokens"] == pl.Int128


def test_the_sum_of_nothing_known_is_null_and_of_known_zeros_is_zero() -> None:
    frame = pl.DataFrame({"tokens": [0, 0], "tokens_known": [0, 2]})
    assert frame.select(sums.known_sum("tokens")).to_series().to_list() == [None, 0]
    assert frame.select(sums.known_mean("tokens")).to_series().to_list() == [None, 0.0]


def test_rows_are_counted_without_any_value(of_whole: Callable[..., pl.DataFrame]) -> None:
    frame = frame_of([(0, 1, None), (1, 2, None), (1_000_000, 1, None)])
    assert of_whole(sums.summary(interval=SECOND), frame).rows() == [
        (datetime(1970, 1, 1), 2),
        (datetime(1970, 1, 1, 0, 0, 1), 1),
    ]


def test_sums_beyond_int64_survive_parquet(of_whole: Callable[..., pl.DataFrame], tmp_path: Path) -> None:
    found = of_whole(sums.summary(["tokens"]), frame_of([(0, 0, 2**63 - 1)] * 5))
    assert found["tokens"].item() == 5 * (2**63 - 1)
    found.write_parquet(tmp_path / "sums.parquet")
    assert_frame_equal(pl.read_parquet(tmp_path / "sums.parquet"), found)


def test_narrowed_keeps_what_does_not_fit() -> None:
    frame = pl.DataFrame({"small": [1, None], "large": [1 << 63, 0]}, {"small": pl.Int128, "large": pl.Int128})
    assert sums.narrowed(frame).schema == {"small": pl.Int64, "large": pl.Int128}
    assert sums.narrowed(frame.clear()).schema == {"small": pl.Int64, "large": pl.Int64}


def test_complete_sums_are_over_the_rows_in_which_every_column_is_known(of_parts: Callable[..., list[pl.DataFrame]]) -> None:
    frame = pl.DataFrame({"input": [10, 20, None, 40], "cached": [1, None, 3, 4]})
    for found in of_parts(sums.summary(["input", "cached"], complete=True), sums.combine, frame, [1, 3]):
        assert found.rows() == [(4, 50, 2, 5, 2)]


def test_narrow_integers_are_summed_too(of_whole: Callable[..., pl.DataFrame]) -> None:
    frame = pl.DataFrame({"failed": [1, None, 100, 100, 100]}, {"failed": pl.Int8})
    assert of_whole(sums.summary(["failed"]), frame).rows() == [(5, 301, 4)]
