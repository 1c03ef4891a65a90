from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import histogram
from llmtrace.summaries.histogram import bucket_indices, bucket_middle, bucket_starts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LARGEST = 2**63 - 1
VALUES = st.integers(0, 40) | st.integers(0, 10**6) | st.integers(2**62, LARGEST)
ROWS = st.lists(st.tuples(st.integers(0, 3), st.none() | VALUES, st.none() | st.integers(0, 9)), max_size=40)
SCHEMA = {"key": pl.UInt64, "input": pl.Int64, "cached": pl.Int64}
BITS = st.sampled_from([1, 6, 8, 10, 11, 15])


def naive_bucket(value: int, bits: int) -> int:
    """By the words of the layout: a bucket each below 2^(bits+1), then 2^bits buckets for each power of two."""
    if value < 2 ** (bits + 1):
        return value
    power = value.bit_length() - 1
    return (2 << bits) + ((power - bits - 1) << bits) + (value - (1 << power)) // (1 << (power - bits))


def naive_row(values: list[int | None], bits: int) -> tuple[Any, ...]:
    known = [value for value in values if value is not None]
    cells = sorted(Counter(naive_bucket(value, bits) for value in known).items())
    extremes = (min(known), max(known)) if known else (None, None)
    return (len(known), sum(known), *extremes, [bucket for bucket, _ in cells], [count for _, count in cells])


@given(st.lists(VALUES, min_size=1, max_size=50), BITS)
def test_buckets_are_those_of_the_layout(values: list[int], bits: int) -> None:
    assert bucket_indices(np.array(values), bits).tolist() == [naive_bucket(value, bits) for value in values]


@pytest.mark.parametrize("bits", [1, 6, 11, 15])
def test_buckets_beside_powers_of_two_are_those_of_the_layout(bits: int) -> None:
    values = [value for power in range(63) for value in range(max(2**power - 2, 0), 2**power + 3)] + [LARGEST - 1, LARGEST]
    assert bucket_indices(np.array(values), bits).tolist() == [naive_bucket(value, bits) for value in values]


@given(VALUES, BITS)
def test_a_bucket_starts_at_or_below_its_values_and_the_next_one_above(value: int, bits: int) -> None:
    (bucket,) = bucket_indices(np.array([value]), bits)
    start = bucket_starts(np.array([bucket]), bits)[0]
    assert start <= value
    assert bucket_indices(np.array([start]), bits)[0] == bucket
    assert start == 0 or bucket_indices(np.array([start - 1]), bits)[0] == bucket - 1


@given(VALUES, BITS)
def test_the_middle_of_a_bucket_is_exact_below_the_limit_and_within_the_bound_above(value: int, bits: int) -> None:
    middle = bucket_middle(int(bucket_indices(np.array([value]), bits)[0]), bits)
    if value < histogram.exact_below(bits):
        assert middle == value
    else:
        assert abs(middle - value) <= histogram.relative_error(bits) * value


@pytest.mark.parametrize("bits", [6, 11])
def test_the_bound_is_sharp(bits: int) -> None:
    first_wide = histogram.exact_below(bits)
    assert bucket_middle(int(bucket_indices(np.array([first_wide]), bits)[0]), bits) == first_wide + 0.5


@given(ROWS, BITS, st.sampled_from([None, "key"]), st.lists(st.integers(0, 40), max_size=3))
def test_summaries_are_naive_counts_however_the_rows_are_cut(
    of_parts: Callable[..., list[pl.DataFrame]],
    rows: list[tuple[int, int | None, int | None]],
    bits: int,
    by: str | None,
    cuts: list[int],
) -> None:
    frame = pl.DataFrame(rows, SCHEMA, orient="row")
    keys = sorted({row[0] for row in rows}) if by else [None]
    expected = [
        (name, *([] if key is None else [key]), *naive_row([row[place] for row in rows if key in {None, row[0]}], bits))
        for place, name in ((2, "cached"), (1, "input"))
        for key in keys
    ]
    summary = histogram.summary(["input", "cached"], bits=bits, by=by)
    for found in of_parts(summary, histogram.combine, frame, cuts):
        assert found.rows() == expected


def test_groups_of_many_values_are_counted_like_those_of_few(of_whole: Callable[..., pl.DataFrame]) -> None:
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(
        {"key": rng.choice([0, 0, 0, 0, 1, 2], 2000), "input": np.exp(rng.normal(6, 2, 2000)).astype(np.int64)},
        schema_overrides={"key": pl.UInt64},
    ).vstack(pl.DataFrame({"key": [3] * 70, "input": [7] * 70}, schema_overrides={"key": pl.UInt64}))
    found = of_whole(histogram.summary(["input"], bits=6, by="key"), frame)
    for key, row in zip(found["key"], found.iter_rows(), strict=True):
        assert row[2:] == naive_row(frame.filter(pl.col("key") == key)["input"].to_list(), 6)


def test_empty_parts_have_no_groups_and_one_row_without_groups(of_whole: Callable[..., pl.DataFrame]) -> None:
    empty = pl.DataFrame(schema=SCHEMA)
    assert of_whole(histogram.summary(["input"], bits=8, by="key"), empty).height == 0
    assert of_whole(histogram.summary(["input"], bits=8), empty).rows() == [("input", 0, 0, None, None, [], [])]


def test_inputs_are_not_changed_and_summaries_survive_parquet(of_whole: Callable[..., pl.DataFrame], tmp_path: Path) -> None:
    summary = histogram.summary(["input"], bits=8, by="key")
    frames = [
        of_whole(summary, pl.DataFrame({"key": keys, "input": [5, LARGEST, 5]}, schema_overrides={"key": pl.UInt64}))
        for keys in ([1, 2, 1], [2, 3, 2])
    ]
    before = [frame.rows() for frame in frames]
    combined = histogram.combine(frames)
    assert [frame.rows() for frame in frames] == before
    for number, frame in enumerate(frames):
        frame.write_parquet(tmp_path / f"{number}.parquet", row_group_size=1)
    assert_frame_equal(histogram.combine([pl.read_parquet(tmp_path / f"{number}.parquet") for number in (0, 1)]), combined)


def test_counts_beyond_32_bits_do_not_wrap(of_whole: Callable[..., pl.DataFrame]) -> None:
    frame = of_whole(histogram.summary(["input"], bits=8), pl.DataFrame({"input": [7, 8, 8]}))
    huge = frame.with_columns(
        pl.lit(2**32 - 1, pl.Int64).alias("known"), pl.Series("counts", [[1, 2**32 - 2]], pl.List(pl.UInt32))
    )
    twice = histogram.combine([huge, huge])
    assert twice["counts"].to_list() == [[2, 2**33 - 4]]
    assert histogram.combine([twice, frame])["counts"].to_list() == [[3, 2**33 - 2]]
    assert histogram.combine([frame, twice]).equals(histogram.combine([twice, frame]))


def test_lists_of_a_slice_start_at_its_own_first_cell(of_whole: Callable[..., pl.DataFrame]) -> None:
    frame = pl.DataFrame({"key": [1, 1, 2], "input": [5, 6, 7]}, schema_overrides={"key": pl.UInt64})
    found = of_whole(histogram.summary(["input"], bits=8, by="key"), frame)
    offsets, buckets, counts = histogram.lists(found[1:])
    assert (offsets.tolist(), buckets.tolist(), counts.tolist()) == ([0, 1], [7], [1])
    assert histogram.lists(found.clear())[0].tolist() == [0]
