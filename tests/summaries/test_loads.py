"""Loads against a loop over rows that adds up each instance and second, wherever the requests are cut."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import hexagons, loads
from llmtrace.summaries.histogram import bucket_of
from llmtrace.summaries.keys import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    State = dict[str, pl.DataFrame]
    Row = tuple[int, int, int | None, int | None]

PANELS = (loads.Panel("took", "size"), loads.Panel("took"))
SECOND_US = 1_000_000
LARGEST = 2**63 - 1
EDGES = sorted([0, *(step * 10**power for power in range(18) for step in (1, 2, 5))])
TIMES = st.builds(lambda second, us: second * SECOND_US + us, st.integers(-2, 4), st.sampled_from([0, 1, 400_000, SECOND_US - 1]))
SIZES = st.none() | st.sampled_from([0, 1, 4, 5, 9, 10, 10, 200, 30_000, LARGEST])
ROWS = st.lists(
    st.tuples(TIMES, st.sampled_from([UNKNOWN, 1, 1, 2**64 - 1]), SIZES, st.none() | st.integers(0, 10**7)), max_size=60
)


def frame_of(rows: Sequence[Row]) -> pl.DataFrame:
    schema = {"timestamp": pl.Int64, "instance": pl.UInt64, "size": pl.Int64, "took": pl.Int64}
    frame = pl.DataFrame(rows, schema, orient="row").sort("timestamp", maintain_order=True)
    return frame.with_columns(pl.col("timestamp").cast(pl.Datetime("us")), pl.col("size").fill_null(0).alias("tokens"))


def state_of(frame: pl.DataFrame) -> State:
    whole = frame.with_columns(pl.col("timestamp").to_physical(), pl.col("size", "took").fill_null(-1)).rechunk()
    return loads.summarise(whole, PANELS, "instance", "tokens")


def counts_of(state: State, panel: int) -> dict[int, Counter[int]]:
    """Per place the buckets, as often as they occur."""
    table = loads.counted(loads.closed(state, PANELS)["load_cells"], panel)
    assert table["place"].is_sorted()
    assert table["requests"].to_list() == table["counts"].list.sum().to_list()
    return {row["place"]: Counter(dict(zip(row["buckets"], row["counts"], strict=True))) for row in table.iter_rows(named=True)}


def band_of(load: int) -> int:
    return max(place for place, edge in enumerate(EDGES) if edge <= load)


class Naive:
    """What the definitions say, row by row."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.hexagons: dict[int, Counter[int]] = defaultdict(Counter)
        self.bands: dict[int, Counter[int]] = defaultdict(Counter)
        self.totals: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        seconds = defaultdict(list)
        for time, instance, size, took in rows:
            if instance != UNKNOWN:
                seconds[time // SECOND_US, instance].append((size, took))
        for requests in seconds.values():
            self._add(requests, min(sum(size or 0 for size, _ in requests), LARGEST))

    def _add(self, requests: list[tuple[int | None, int | None]], load: int) -> None:
        band = band_of(load)
        for place, more in enumerate((1, len(requests), len(requests) == 1)):
            self.totals[band][place] += more
        for size, took in requests:
            if took is None:
                continue
            self.bands[band][bucket_of(took, loads.BITS)] += 1
            if size:
                place = hexagons.hexagon(bucket_of(load, hexagons.BITS), bucket_of(size, hexagons.BITS))
                self.hexagons[place][bucket_of(took, loads.BITS)] += 1


def assert_naive(state: State, rows: Sequence[Row]) -> None:
    naive = Naive(rows)
    assert counts_of(state, 0) == naive.hexagons
    assert counts_of(state, 1) == naive.bands
    bands = loads.closed(state, PANELS)["load_bands"]
    assert bands.rows() == [(band, *naive.totals[band]) for band in sorted(naive.totals)]


@given(ROWS)
def test_loads_are_those_of_a_loop(rows: list[Row]) -> None:
    assert_naive(state_of(frame_of(rows)), rows)


@given(ROWS, st.lists(st.integers(0, 60), max_size=5).map(sorted))
def test_no_cut_changes_a_bit(rows: list[Row], cuts: list[int]) -> None:
    frame = frame_of(rows)
    whole = state_of(frame)
    parts = [state_of(frame[start:end]) for start, end in pairwise([0, *cuts, max(frame.height, *cuts, 0)])]
    from_left = reduce(lambda left, right: loads.combine([left, right], PANELS), parts)
    from_right = reduce(lambda right, left: loads.combine([left, right], PANELS), reversed(parts))
    for found in (from_left, from_right, loads.combine(parts, PANELS)):
        for name, table in whole.items():
            assert_frame_equal(found[name], table)


def test_requests_of_one_second_wait_in_counts_however_many_there_are() -> None:
    rows: list[Any] = [(5, 1, 7, 3)] * 5_000
    state = state_of(frame_of(rows))
    assert state["load_cells"].is_empty()
    assert (state["load_open"].height, state["load_waiting"]["count"].to_list()) == (1, [5_000, 5_000])
    assert_naive(loads.combine([state, state], PANELS), rows * 2)


def test_counts_beyond_32_bits_stay_right() -> None:
    nothing, state = state_of(frame_of([])), state_of(frame_of([(5, 1, 7, 3)]))
    waiting = state["load_waiting"].with_columns(pl.col("count") + (1 << 32))
    many = {**nothing, **loads.closed({**state, "load_waiting": waiting}, PANELS)}
    twice = loads.combine([many, many], PANELS)
    assert [sum(counts.values()) for panel in (0, 1) for counts in counts_of(twice, panel).values()] == [2 * (1 + (1 << 32))] * 2
