"""Copies of contexts against a loop over requests, wherever they are cut, and a case worked out by hand."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import replicas
from llmtrace.summaries.intervals import Interval
from llmtrace.summaries.keys import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    Row = tuple[int, int, int, int, int]
    State = dict[str, pl.DataFrame]

WINDOW = Interval.parse("10s")
WIDTH_US = 10_000_000
EDGES = sorted([0, *(step * 10**power for power in range(18) for step in (1, 2, 5))])
NAMES = ("parties", "requests", "copies", "scattered", "physical", "logical", "tokens", "instances")
TIMES = st.builds(lambda window, us: window * WIDTH_US + us, st.integers(-2, 4), st.sampled_from([0, 1, WIDTH_US - 1]))
ROWS = st.lists(
    st.tuples(
        TIMES,
        st.sampled_from([UNKNOWN, 1, 2, 2**64 - 1]),
        st.sampled_from([UNKNOWN, 5, 6]),
        st.sampled_from([1, 2, 3, 4]),
        st.sampled_from([0, 1, 40, 99, 100, 101, 2**32 - 1]),
    ),
    max_size=50,
)
CUTS = st.lists(st.integers(0, 50), max_size=5).map(sorted)


def state_of(rows: Sequence[Row]) -> State:
    schema = {"time": pl.Int64, "party": pl.UInt64, "model": pl.UInt64, "instance": pl.UInt64, "tokens": pl.Int64}
    frame = pl.DataFrame(rows, schema, orient="row").with_columns(
        pl.lit(1, pl.Int64).alias("requests"), pl.col("tokens").alias("largest")
    )
    return replicas.summarise(frame["time"].to_numpy(), frame, WINDOW)


def cells(rows: Sequence[Row]) -> dict[int, list[dict[str, float]]]:
    """What the definitions say, per window and then model."""
    served: dict[int, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        served[row[0] // WIDTH_US * WIDTH_US][row[2]].append(row)
    return {window: [cell_of(requests) for requests in models.values()] for window, models in sorted(served.items())}


def cell_of(requests: Sequence[Row]) -> dict[str, float]:
    n = len({row[3] for row in requests})
    cell = {**dict.fromkeys(NAMES, 0.0), "model": requests[0][2], "instances": n, "tokens": sum(row[4] for row in requests)}
    for party in {row[1] for row in requests} - {UNKNOWN}:
        own = [row for row in requests if row[1] == party]
        copies = {instance: max(row[4] for row in own if row[3] == instance) for instance in {row[3] for row in own}}
        scattered = n * (1 - (1 - 1 / n) ** len(own))
        more = (1, len(own), len(copies), scattered, sum(copies.values()), max(copies.values()))
        for name, amount in zip(NAMES, more, strict=False):
            cell[name] += amount
    return cell


def summed(some: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: sum(cell[name] for cell in some) for name in NAMES}


def read(rows: pl.DataFrame) -> list[dict[str, float]]:
    return [
        {name: row[name] / (replicas.SCATTER_STEPS if name == "scattered" else 1) for name in NAMES}
        for row in rows.iter_rows(named=True)
    ]


@given(ROWS)
def test_windows_and_bands_are_those_of_a_loop(rows: list[Row]) -> None:
    found, expected = replicas.closed(state_of(sorted(rows, key=lambda row: row[0])), WINDOW), cells(rows)
    assert found["windows"]["time"].to_physical().to_list() == list(expected)
    assert read(found["windows"]) == [pytest.approx(summed(some), abs=1e-4) for some in expected.values()]
    bands: dict[tuple[int, int], list[dict[str, float]]] = defaultdict(list)
    for cell in (cell for some in expected.values() for cell in some if cell["parties"]):
        for axis, load in enumerate((cell["tokens"] / 10, cell["tokens"] / 10 / cell["instances"])):
            bands[axis, bisect_right(EDGES, load) - 1].append(cell)
    models = defaultdict(list)
    for cell in (cell for some in expected.values() for cell in some if cell["parties"]):
        models[cell["model"]].append(cell)
    assert found["spread_models"].select("model", "cells").rows() == [(model, len(models[model])) for model in sorted(models)]
    assert read(found["spread_models"]) == [pytest.approx(summed(models[model]), abs=1e-4) for model in sorted(models)]
    assert found["spread_bands"].select("axis", "band", "cells").rows() == [(*key, len(bands[key])) for key in sorted(bands)]
    assert read(found["spread_bands"]) == [pytest.approx(summed(bands[key]), abs=1e-4) for key in sorted(bands)]


@given(ROWS, CUTS)
def test_no_cut_changes_a_bit(rows: list[Row], cuts: list[int]) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    whole = state_of(rows)
    parts = [state_of(rows[start:end]) for start, end in pairwise([0, *cuts, max(len(rows), *cuts, 0)])]
    from_left = reduce(lambda left, right: replicas.combine([left, right], WINDOW), parts)
    from_right = reduce(lambda right, left: replicas.combine([left, right], WINDOW), reversed(parts))
    for found in (from_left, from_right, replicas.combine(parts, WINDOW)):
        for name, table in whole.items():
            assert_frame_equal(found[name], table)


def test_a_case_by_hand() -> None:
    """Party 1 has contexts of 30 and 50 tokens on two instances, party 2 one of 70; a stranger wakes a third instance."""
    rows = [(0, 1, 5, 1, 30), (1, 1, 5, 2, 40), (2, 1, 5, 2, 50), (3, 2, 5, 2, 70), (4, UNKNOWN, 5, 3, 10)]
    found = replicas.closed(state_of(rows), WINDOW)
    [window] = found["windows"].rows(named=True)
    assert (window["parties"], window["requests"], window["copies"], window["instances"]) == (2, 4, 3, 3)
    assert (window["physical"], window["logical"], window["tokens"]) == (30 + 50 + 70, 50 + 70, 200)
    # Three requests at random on three instances meet 3·(1 - (2/3)³) = 19/9 of them, one meets one.
    assert window["scattered"] / replicas.SCATTER_STEPS == pytest.approx(19 / 9 + 1, abs=2e-6)
    # 20 tokens/s of the model, 6.7 of an instance.
    assert found["spread_bands"].select("axis", "band").rows() == [(0, EDGES.index(20)), (1, EDGES.index(5))]


def test_one_instance_holds_one_copy() -> None:
    [window] = replicas.closed(state_of([(0, 1, 5, 1, 30), (1, 1, 5, 1, 40)]), WINDOW)["windows"].rows(named=True)
    assert (window["copies"], window["scattered"], window["physical"], window["logical"]) == (1, replicas.SCATTER_STEPS, 40, 40)
