"""Hit ratios in cells, their sums and distributions per key, and TTFT beside them, against loops with exact fractions."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import histogram, hit_cells, hit_lengths, hits
from llmtrace.summaries.interning import intern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

Pair = tuple[int, int]
ZERO, FULL = 2 * 100, 2 * 950
EDGES = [edge + around for edge in (*hits.BANDS, *hit_lengths.COLUMNS) for around in (-1, 0, 1)]

SIZES = st.integers(-1, 40) | st.sampled_from(
    [1_000, 2_000, 2**30 - 1, 2**30, 2**53 - 1, 2**53, 2**53 + 1, 1_000 * 2**53, 2**63 - 1]
)
SIZES |= st.integers(2**40, 2**63 - 1)


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """Input and cached tokens: ratios on, beside and between steps, more cached than input, and all that stands for no ratio."""
    size = draw(SIZES)
    steps = draw(st.integers(0, 1_001))
    hit = max(size, 0) * steps // 1_000 + draw(st.integers(-1, 1))
    return size, draw(st.sampled_from([hits.FAILED, hits.UNLOGGED, 0])) if draw(st.booleans()) and hit < 0 else min(
        hit, 2**63 - 1
    )


PAIRS = st.lists(pairs(), max_size=40)


def measured(rows: Sequence[Pair]) -> hits.Hits:
    return hits.measure(*(np.array([row[side] for row in rows], np.int64) for side in (0, 1)))


def ratio_of(pair: Pair) -> Fraction | None:
    size, hit = pair
    return None if size <= 0 or hit < 0 else min(Fraction(hit, size), Fraction(1))


def cell_of(ratio: Fraction, steps: int) -> int:
    step = int(ratio * steps)
    return 2 * step + (ratio * steps != step)


@given(PAIRS)
def test_cells_are_exact(rows: list[Pair]) -> None:
    expected = [hits.NO_RATIO if (ratio := ratio_of(row)) is None else cell_of(ratio, 1_000) for row in rows]
    assert measured(rows).cells.tolist() == expected


@given(
    st.lists(
        st.tuples(st.integers(1, 2**30 - 1) | st.sampled_from(EDGES), st.integers(0, 1_000), st.integers(-1, 1)), max_size=40
    )
)
def test_what_is_measured_several_at_once_is_exact_too(drawn: list[tuple[int, int, int]]) -> None:
    rows = [(size, min(max(size * steps // 1_000 + beside, 0), size)) for size, steps, beside in drawn if size > 0]
    found = measured(rows)
    assert found.cells.tolist() == [cell_of(Fraction(hit, size), 1_000) for size, hit in rows]
    assert found.bands.tolist() == [sum(edge <= size for edge in hits.BANDS) - 1 for size, _ in rows]
    assert all(
        abs(ratio * size - hit * 2**31) <= size * 0.5001 for ratio, (size, hit) in zip(found.ratios.tolist(), rows, strict=True)
    )


@given(PAIRS)
def test_why_there_is_no_ratio(rows: list[Pair]) -> None:
    found = measured(rows)
    assert found.failed == sum(hit == hits.FAILED for _, hit in rows)
    assert found.unlogged == sum(hit == hits.UNLOGGED for _, hit in rows)
    assert found.no_input == sum(hit >= 0 and size <= 0 for size, hit in rows)
    known = [place for place, row in enumerate(rows) if ratio_of(row) is not None]
    assert (found.first_row, found.last_row) == ((known[0], known[-1]) if known else (-1, -1))


KEYED = st.lists(st.tuples(pairs(), st.integers(0, 4)), max_size=40)
CUTS = st.lists(st.integers(0, 40), max_size=4)

Keyed = list[tuple[Pair, int]]
Timed = TypeVar("Timed")
PIECE = 7


def parts_of(rows: Keyed, cuts: list[int]) -> list[Keyed]:
    borders = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    return [rows[start:end] for start, end in itertools.pairwise(borders)]


def pieces_of(rows: Sequence[Timed]) -> Iterator[Sequence[Timed]]:
    """Some requests after the other, as a summary takes those of a part."""
    return (rows[start : start + PIECE] for start in range(0, len(rows), PIECE))


def sums_of(rows: Keyed) -> pl.DataFrame:
    ids, keys = intern(np.array([key for _, key in rows], np.uint64))
    return hits.per_key(ids, keys, [measured([row for row, _ in piece]) for piece in pieces_of(rows)], ZERO, FULL)


def cells_of(rows: Keyed) -> pl.DataFrame:
    ids, keys = intern(np.array([key for _, key in rows], np.uint64))
    return hit_cells.summarise(ids, keys, measured([row for row, _ in rows]).cells)


def assert_lawful(summarise: Callable[[Keyed], pl.DataFrame], combine: Any, rows: Keyed, cuts: list[int]) -> None:  # noqa: ANN401
    """However it is cut and grouped, it is the summary of the whole, rows in the same order."""
    whole, states = summarise(rows), [summarise(part) for part in parts_of(rows, cuts)]
    assert_frame_equal(combine(states), whole)
    assert_frame_equal(reduce(lambda left, right: combine([left, right]), states), whole)
    assert_frame_equal(reduce(lambda right, left: combine([left, right]), reversed(states)), whole)


@given(KEYED, CUTS)
def test_sums_per_key(rows: Keyed, cuts: list[int]) -> None:
    assert_lawful(sums_of, hits.combine, rows, cuts)
    table = hits.described(sums_of(rows))
    groups = defaultdict(list)
    for row, key in rows:
        groups[key].append(row)
    assert table["key"].to_list() == list(groups)
    for found, group in zip(table.rows(named=True), groups.values(), strict=True):
        known = [(row, ratio) for row in group if (ratio := ratio_of(row)) is not None]
        assert (found["requests"], found["measured_requests"]) == (len(group), len(known))
        assert found["input_tokens"] == sum(size for (size, _), _ in known)
        assert found["cached_tokens"] == sum(min(size, hit) for (size, hit), _ in known)
        if not known:
            assert [found[name] for name in ("mean_request_hit_ratio", "token_hit_ratio", "share_zero", "share_full")] == [
                None
            ] * 4
        else:
            assert found["mean_request_hit_ratio"] == pytest.approx(
                float(sum(ratio for _, ratio in known) / len(known)), abs=2**-31
            )
            assert found["token_hit_ratio"] == pytest.approx(found["cached_tokens"] / found["input_tokens"], rel=1e-12)
            assert found["share_zero"] == pytest.approx(sum(ratio <= Fraction(1, 10) for _, ratio in known) / len(known))
            assert found["share_full"] == pytest.approx(sum(ratio >= Fraction(95, 100) for _, ratio in known) / len(known))


@given(KEYED, CUTS)
def test_a_ledger_gives_what_combining_at_once_gives(rows: Keyed, cuts: list[int]) -> None:
    states = [sums_of(part) for part in parts_of(rows, cuts)]
    ledger = hits.Ledger()
    for state in states:
        ledger.add(state)
    assert_frame_equal(ledger.total(), hits.combine(states))


@given(KEYED, CUTS)
def test_distributions_per_key(rows: Keyed, cuts: list[int]) -> None:
    assert_lawful(cells_of, hit_cells.combine, rows, cuts)
    table = cells_of(rows)
    groups: dict[int, Counter[int]] = {key: Counter() for _, key in rows}
    for row, key in rows:
        if (ratio := ratio_of(row)) is not None:
            groups[key][cell_of(ratio, 100)] += 1
    assert table["key"].to_list() == list(groups)
    assert table["cells"].to_list() == [sorted(cells) for cells in groups.values()]
    assert table["counts"].to_list() == [[cells[cell] for cell in sorted(cells)] for cells in groups.values()]
    dense = hit_cells.dense(table)
    assert dense.shape == (len(groups), 201)
    assert [{cell: row[cell] for cell in np.flatnonzero(row)} for row in dense] == [dict(cells) for cells in groups.values()]


def test_more_keys_than_are_counted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [((100, key % 7), key) for key in range(50)]
    whole = cells_of(rows)
    monkeypatch.setattr(hit_cells, "KEYS_AT_ONCE", 8)
    assert_frame_equal(cells_of(rows), whole)


def test_counts_beyond_32_bits_stay() -> None:
    frame = pl.DataFrame({"key": [1], "cells": [[5]], "counts": [[2**32 - 1]]}, dict(hit_cells.SCHEMA))
    assert hit_cells.combine([frame, frame])["counts"].to_list() == [[2**33 - 2]]


@pytest.mark.parametrize("summarise", [sums_of, cells_of])
def test_a_summary_survives_parquet(summarise: Callable[[Keyed], pl.DataFrame], tmp_path: Path) -> None:
    frame = summarise([((10, 5), 3), ((10, 10), 1), ((0, 0), 1)])
    frame.write_parquet(tmp_path / "frame.parquet")
    assert_frame_equal(pl.read_parquet(tmp_path / "frame.parquet"), frame)


LONG = st.lists(st.tuples(st.tuples(st.sampled_from(EDGES), st.integers(-2, 200_000)), st.just(0)), max_size=40)


def lengths_of(rows: Keyed) -> pl.DataFrame:
    return hit_lengths.by_length((measured([row for row, _ in piece]) for piece in pieces_of(rows)), ZERO, FULL)


@given(LONG)
def test_bands_and_cells(rows: Keyed) -> None:
    expected: dict[Pair, list[Pair]] = defaultdict(list)
    for row, _ in rows:
        if (ratio := ratio_of(row)) is not None:
            band = max(place for place, edge in enumerate(hits.BANDS) if edge <= row[0])
            expected[band, cell_of(ratio, 1_000)].append(row)
    table = hit_lengths.split(lengths_of(rows)).with_columns(hits.tokens("input"))
    found = {(row["band"], row["cell"]): row for row in table.rows(named=True)}
    assert found.keys() == expected.keys()
    assert all(row["measured"] == len(expected[key]) for key, row in found.items())
    assert all(row["input_tokens"] == sum(size for size, _ in expected[key]) for key, row in found.items())


TIMED = st.lists(
    st.tuples(pairs(), st.sampled_from([0.0, -1.0, 1e-7, 0.1, 299.9999999, 300.0, 1e9]) | st.floats(0, 301)), max_size=40
)


def ttft_of(rows: Sequence[tuple[Pair, float]]) -> pl.DataFrame:
    return hit_lengths.ttft(
        (measured([row for row, _ in piece]), np.array([time for _, time in piece], np.float64)) for piece in pieces_of(rows)
    )


@given(TIMED, CUTS)
def test_ttft_by_length_and_ratio(rows: list[tuple[Pair, float]], cuts: list[int]) -> None:
    expected: dict[int, list[int]] = defaultdict(list)
    for row, time in rows:
        ratio = ratio_of(row)
        if ratio is not None and 0 < time < 300:
            column = max(place for place, edge in enumerate(hit_lengths.COLUMNS) if edge <= row[0])
            expected[column * 11 + int(ratio * 10)].append(int(time * 1e6 + 0.5))
    table = ttft_of(rows)
    assert table["key"].to_list() == sorted(expected)
    for found, (_, values) in zip(table.rows(named=True), sorted(expected.items()), strict=True):
        assert (found["known"], found["sum"], found["min"], found["max"]) == (len(values), sum(values), min(values), max(values))
        buckets = Counter(histogram.bucket_indices(np.array(values), hit_lengths.BITS).tolist())
        assert dict(zip(found["buckets"], found["counts"], strict=True)) == buckets
    borders = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    states = [ttft_of(rows[start:end]) for start, end in itertools.pairwise(borders)]
    assert_frame_equal(histogram.combine(states), table)


@pytest.mark.parametrize("size", [2**32 - 1, 2**32, 2**33 - 1, 2**33])
def test_tokens_around_32_bits_add_up(size: int) -> None:
    some, ids = measured([(size, size - 1)] * 3), np.zeros(3, np.uint32)
    by_key = hits.per_key(ids, np.array([7], np.uint64), [some], ZERO, FULL)
    for frame in (by_key, hit_lengths.by_length([some], ZERO, FULL)):
        assert frame.select(hits.tokens("input"), hits.tokens("cached")).rows() == [(3 * size, 3 * (size - 1))]
