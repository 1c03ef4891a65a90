"""`latency` against DuckDB and NumPy, in queries and loops written from the paper's definitions and from nothing else."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmtrace.analyses.latency import Latency
from llmtrace.engine.local import run
from llmtrace.errors import UsageError
from llmtrace.trace import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from llmtrace.result import Result

    Measured = Callable[..., Result]
    Row = dict[str, Any]

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "year"
START = datetime(2025, 4, 30, 23, 59, 58)
OVERALL, BY_MODEL, IN_CELLS, BY_LOAD = 2**-12, 2**-8, 2**-9, 2**-7
PERCENTS = (5, 25, 50, 75, 90, 95, 99)

DEFINED = """
WITH served AS (
    SELECT *, duration_s AS dur, ttft_s AS ttft, input_tokens AS it, output_tokens AS ot,
           date_trunc('second', timestamp) AS second
    FROM trace WHERE status IS NULL OR status = 'ok'),
timed AS (SELECT *, dur - ttft AS decode FROM served WHERE ttft > 0 AND dur > 0 AND ttft <= dur),
loads AS (
    SELECT instance, date_trunc('second', timestamp) AS second, count(*) AS members,
           coalesce(sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)) FILTER (status IS NULL OR status = 'ok'), 0)
           AS load
    FROM trace WHERE instance IS NOT NULL GROUP BY ALL)
"""
"""Requests that did not fail, those of Figure 3, and the load of each instance in each second."""
QUERIES = {
    "ttft_s": "SELECT ttft AS value, model, timestamp FROM served WHERE ttft > 0",
    "duration_s": "SELECT dur AS value, model, timestamp FROM served WHERE dur > 0",
    "timed_duration_s": "SELECT dur AS value, model FROM timed",
    "decode_s": "SELECT decode AS value, model FROM timed",
    "prefill_share": "SELECT ttft / dur AS value, model FROM timed WHERE dur < 300",
    "tpot_s": "SELECT decode / (ot - 1) AS value, model, timestamp FROM timed WHERE ot > 1",
}
"""The requests of each measure, and what it is of them."""
GRIDS = {
    "duration": """
        SELECT it // $across * $across AS a, ot // $up * $up AS b, count(*) AS n, quantile_cont(dur, [0.5, 0.9]) AS p
        FROM served WHERE it > 0 AND ot > 0 AND dur > 0 AND dur < 300 AND it < 16 * $across AND ot < 40 * $up
        GROUP BY a, b HAVING count(*) >= 50 ORDER BY a, b""",
    "ttft": """
        SELECT it // $across * $across AS a, ot // $up * $up AS b, count(*) AS n, quantile_cont(ttft, [0.5, 0.9]) AS p
        FROM served WHERE ttft > 0 AND ttft < 300 AND it < 16 * $across AND ot < 40 * $up
        GROUP BY a, b HAVING count(*) >= 50 ORDER BY a, b""",
}
IN_GRIDS = {
    "duration": "SELECT count(*) AS n FROM served WHERE it > 0 AND ot > 0 AND dur > 0 AND dur < 300",
    "ttft": "SELECT count(*) AS n FROM served WHERE ttft > 0 AND ttft < 300 AND it IS NOT NULL AND ot IS NOT NULL",
}
BY_LOADS = {
    "load_ttft": """
        SELECT load, it AS tokens, ttft AS value FROM served JOIN loads USING (instance, second) WHERE ttft > 0 AND it > 0""",
    "load_decode": """
        SELECT load, ot AS tokens, greatest(dur - ttft, 0) AS value FROM served JOIN loads USING (instance, second)
        WHERE ttft > 0 AND dur > 0 AND ot > 0""",
}


def some_requests(seed: int, rows: int) -> pl.DataFrame:
    """Latencies on and beside every border of a filter, tokens on and beside borders of cells, whole milliseconds, nulls."""
    rng = np.random.default_rng(seed)
    ttft_ms = rng.choice(
        [0, 1, 250, 1_000, 7_777, 299_999, 300_000, 400_000], rows, p=[0.1, 0.1, 0.3, 0.2, 0.15, 0.05, 0.05, 0.05]
    )
    more_ms = rng.choice([-200, 0, 1, 3_000, 20_000, 299_000], rows, p=[0.1, 0.1, 0.1, 0.3, 0.3, 0.1])
    values: dict[str, Any] = {
        "timestamp": np.datetime64(START, "us") + np.sort(rng.integers(0, 9_000_000, rows)).astype("timedelta64[us]"),
        "input_tokens": rng.choice([0, 1, 1_999, 2_000, 31_999, 32_000, 70_000], rows),
        "output_tokens": rng.choice([0, 1, 2, 199, 200, 7_999, 8_000], rows),
        "model": rng.choice(["m1", "m2", "m3", "m4", "m5"], rows, p=[0.4, 0.3, 0.15, 0.1, 0.05]),
        "instance": rng.choice(["i1", "i2", "i3"], rows),
        "stream": rng.random(rows) < 0.8,
        "ttft_s": ttft_ms / 1_000,
        "duration_s": np.maximum(ttft_ms + more_ms, 0) / 1_000,
        "status": rng.choice(["ok", "timeout"], rows, p=[0.9, 0.1]),
    }
    unknown = {name: rng.random(rows) < rng.choice([0, 0.1, 1], p=[0.5, 0.45, 0.05]) for name in values if name != "timestamp"}
    return pl.DataFrame(values).with_columns(pl.when(~pl.Series(nulls)).then(name).alias(name) for name, nulls in unknown.items())


REQUESTS = st.builds(some_requests, st.integers(0, 10**6), st.integers(0, 80))
MANY_REQUESTS = st.builds(some_requests, st.integers(0, 10**6), st.just(3_000))
CUTS = st.lists(st.integers(0, 80), max_size=3)


ORACLE = duckdb.connect(config={"threads": 1})


def answer(connection: duckdb.DuckDBPyConnection, query: str, **given: int) -> list[Row]:
    connection.execute(DEFINED + query, given)
    names = [column[0] for column in connection.description or ()]
    return [dict(zip(names, row, strict=True)) for row in connection.fetchall()]


def ask(frame: pl.DataFrame, query: str, **given: int) -> list[Row]:
    """DuckDB's answer; a TTFT of a request that did not stream is no TTFT."""
    streamed = pl.when(pl.col("stream").fill_null(value=True)).then("ttft_s").alias("ttft_s")
    lacking = {"model": pl.String, "status": pl.String, "instance": pl.String}
    whole = frame.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in lacking.items() if name not in frame.columns)
    ORACLE.register("trace", whole.with_columns(streamed).to_arrow())
    return answer(ORACLE, query, **given)


ROUNDED = {"prefill_share": 5e-7, "tpot_s": 5e-10}
"""Shares are rounded to millionths and times per token to nanoseconds; the other times here are whole milliseconds."""


def near(value: float | list[float] | None, rel: float, measure: str = "") -> object:
    return None if value is None else pytest.approx(value, rel=rel, abs=ROUNDED.get(measure, 1e-12))


def quantile(values: Iterable[float], percent: float) -> float | None:
    known = np.array(list(values), np.float64)
    return float(np.percentile(known, percent)) if known.size else None


def within(frame: pl.DataFrame, cuts: list[int]) -> list[int]:
    return [min(cut, frame.height) for cut in cuts]


@given(frame=REQUESTS, cuts=CUTS)
def test_measures_overall(measured: Measured, frame: pl.DataFrame, cuts: list[int]) -> None:
    result = measured(Latency(), frame, within(frame, cuts))
    table = {row["measure"]: row for row in result.tables["latencies"].iter_rows(named=True)}
    assert list(table) == list(QUERIES)
    for measure, query in QUERIES.items():
        values = [row["value"] for row in ask(frame, query)]
        row = table[measure]
        assert row["requests"] == len(values)
        assert row["mean"] == near(float(np.mean(values)) if values else None, 1e-12, measure)
        assert (row["min"], row["max"]) == tuple(near(quantile(values, percent), 1e-12, measure) for percent in (0, 100))
        for percent in PERCENTS:
            assert row[f"p{percent}"] == near(quantile(values, percent), OVERALL, measure)


@given(frame=REQUESTS, cuts=CUTS)
def test_scalars(measured: Measured, frame: pl.DataFrame, cuts: list[int]) -> None:
    scalars = measured(Latency(), frame, within(frame, cuts)).scalars
    assert scalars["requests"] == frame.height
    assert scalars["failed_requests"] == (
        None if frame["status"].null_count() == frame.height else frame.filter(status="timeout").height
    )
    for measure, name in {"ttft_s": "ttft", "duration_s": "duration", "timed_duration_s": "timed"}.items():
        assert scalars[f"{name}_requests"] == len(ask(frame, QUERIES[measure]))
    for measure in ("ttft_s", "duration_s", "timed_duration_s", "decode_s", "tpot_s"):
        values = [row["value"] for row in ask(frame, QUERIES[measure])]
        for percent in (50, 90, 99):
            assert scalars[f"{measure.removesuffix('_s')}_p{percent}_s"] == near(quantile(values, percent), OVERALL, measure)
    shares = [row["value"] for row in ask(frame, QUERIES["prefill_share"])]
    assert scalars["prefill_share_p50"] == near(quantile(shares, 50), OVERALL, "prefill_share")
    [sums] = ask(frame, "SELECT sum(ttft) AS ttft, sum(dur) AS dur FROM timed")
    assert scalars["prefill_time_ratio"] == near(sums["ttft"] / sums["dur"] if sums["dur"] else None, 1e-9)


@given(frame=REQUESTS, cuts=CUTS)
def test_by_model(measured: Measured, frame: pl.DataFrame, cuts: list[int]) -> None:
    table = measured(Latency(), frame, within(frame, cuts)).tables["by_model"]
    found = {(row["model"], row["measure"]): row for row in table.iter_rows(named=True)}
    expected = defaultdict(list)
    for measure, query in QUERIES.items():
        for row in ask(frame, query):
            expected[row["model"], measure].append(row["value"])
    if frame["model"].null_count() == frame.height:
        expected.clear()
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        assert found[key]["requests"] == len(values)
        assert found[key]["max"] == near(max(values), 1e-12, key[1])
        for percent in PERCENTS:
            assert found[key][f"p{percent}"] == near(quantile(values, percent), BY_MODEL, key[1])
    requests = frame.group_by("model").len().sort("len", "model", descending=[True, False], nulls_last=True)["model"].to_list()
    assert table["model"].unique(maintain_order=True).to_list() == [
        model for model in requests if model in {key[0] for key in found}
    ]


@given(frame=REQUESTS, cuts=CUTS, highlight=st.sampled_from([(), ("m3", "none", "m3", "m1")]))
def test_cdf(measured: Measured, frame: pl.DataFrame, cuts: list[int], highlight: tuple[str, ...]) -> None:
    table = measured(Latency(highlight), frame, within(frame, cuts)).tables["cdf"]
    top = frame["model"].drop_nulls().value_counts().sort("count", "model", descending=[True, False])["model"].head(3).to_list()
    shown = [None, *(("m3", "m1") if highlight else top)]
    curves: dict[tuple[str | None, str], list[float]] = {(model, measure): [] for model in shown for measure in QUERIES}
    for measure, query in QUERIES.items():
        for row in ask(frame, query):
            for model in {None, row["model"]} & set(shown):
                curves[model, measure].append(row["value"])
    keys = [key for key, values in curves.items() if values]
    assert table.select("model", "measure").unique(maintain_order=True).rows() == keys
    for model, measure in keys:
        curve = table.filter(pl.col("model").eq_missing(pl.lit(model, pl.String)), pl.col("measure") == measure)
        assert curve["cumulative_ratio"].to_list() == pytest.approx([step / 100 for step in range(101)])
        expected = np.percentile(curves[model, measure], range(101))
        assert curve["value"].to_list() == near(expected.tolist(), BY_MODEL if model else OVERALL, measure)


@given(frame=REQUESTS, cuts=CUTS, width_s=st.sampled_from([1, 7]))
def test_over_time(measured: Measured, frame: pl.DataFrame, cuts: list[int], width_s: int) -> None:
    table = measured(Latency(interval=f"{width_s}s"), frame, within(frame, cuts)).tables["over_time"]
    starts = {time: time - timedelta(microseconds=since_1970(time) % (width_s * 10**6)) for time in frame["timestamp"]}
    assert table["time"].to_list() == sorted(set(starts.values()))
    for measure in ("ttft_s", "duration_s", "tpot_s"):
        values, name = defaultdict(list), measure.removesuffix("_s")
        for row in ask(frame, QUERIES[measure]):
            values[starts[row["timestamp"]]].append(row["value"])
        for row in table.iter_rows(named=True):
            inside = values[row["time"]]
            assert row[f"{name}_requests"] == len(inside)
            for percent in (50, 90, 99):
                assert row[f"{name}_p{percent}_s"] == near(quantile(inside, percent), BY_MODEL, measure)


@pytest.mark.parametrize("steps", [(2_000, 200), (500, 1_000)])
@pytest.mark.parametrize("name", ["duration", "ttft"])
@given(frame=MANY_REQUESTS)
@settings(max_examples=5)
def test_grids(measured: Measured, frame: pl.DataFrame, name: str, steps: tuple[int, int]) -> None:
    result = measured(Latency(input_step=steps[0], output_step=steps[1]), frame, [1_000, 1_001])
    table = result.tables[f"{name}_grid"]
    assert table.columns == ["input_tokens", "output_tokens", "requests", f"{name}_p50_s", f"{name}_p90_s"]
    assert table.rows() == cells(ask(frame, GRIDS[name], across=steps[0], up=steps[1]))
    [all_of_them] = ask(frame, IN_GRIDS[name])
    left_out = [re.findall(r"[\d,]+ (?=requests? (?:from|in))", note) for note in notes_on(result, f"{name}_grid")]
    told = sum(int(number.replace(",", "")) for numbers in left_out for number in numbers)
    assert told + table["requests"].sum() == all_of_them["n"]


def cells(rows: list[Row]) -> list[tuple[object, ...]]:
    return [(row["a"], row["b"], row["n"], *(near(value, IN_CELLS) for value in row["p"])) for row in rows]


def test_load_has_the_numbers_of_the_paper(measured: Measured) -> None:
    """With tokens below 256, which buckets keep, so that every request lies where its tokens say."""
    rng = np.random.default_rng(3)
    frame = pl.DataFrame(
        {
            "timestamp": np.datetime64(START, "us") + np.sort(rng.integers(0, 900_000_000, 9_000)).astype("timedelta64[us]"),
            "input_tokens": rng.integers(0, 30, 9_000),
            "output_tokens": rng.integers(0, 9, 9_000),
            "instance": rng.choice(["i1", "i2", "i3", "i4"], 9_000),
            "ttft_s": rng.integers(0, 900, 9_000) / 1_000,
            "duration_s": rng.integers(0, 2_000, 9_000) / 1_000,
            "status": rng.choice(["ok", "error"], 9_000, p=[0.9, 0.1]),
            "stream": rng.random(9_000) < 0.9,
        }
    )
    frame = frame.with_columns(pl.when(pl.col("input_tokens") != 7).then("instance").alias("instance"))
    result = measured(Latency(), frame, [2_000, 2_001, 2_500])
    for name, query in BY_LOADS.items():
        found = defaultdict(list)
        for row in ask(frame, query):
            found[nearest(row["load"], row["tokens"])].append(row["value"])
        expected = {key: values for key, values in sorted(found.items()) if len(values) >= 30}
        assert len(expected) > 20
        table = result.tables[name]
        assert table["load_tokens_per_s"].to_list() == pytest.approx([10 ** key[0] for key in expected])
        for cell, (key, values) in zip(table.rows(), expected.items(), strict=True):
            assert cell[1:3] == (pytest.approx(10 ** key[1]), len(values))
            assert cell[3:] == (near(quantile(values, 50), BY_LOAD), near(quantile(values, 90), BY_LOAD))
        left_out = sum(len(values) for values in found.values() if len(values) < 30)
        assert any(f"{left_out:,} requests" in note for note in notes_on(result, name))
    members = [pair["members"] for pair in ask(frame, "SELECT members FROM loads")]
    assert result.scalars["instance_seconds"] == len(members)
    assert result.scalars["requests_per_instance_second"] == pytest.approx(np.mean(members))
    assert result.scalars["alone_ratio"] == pytest.approx(members.count(1) / sum(members))


def nearest(load: float, tokens: float) -> tuple[float, float]:
    """The nearest centre, in decades, of lattices with nine steps to the decade across, and √3 times as wide ones upwards."""
    x, y = math.log10(load) * 9, math.log10(tokens) * 9 / math.sqrt(3)
    corner, middle = (round(x), round(y)), (math.floor(x) + 0.5, math.floor(y) + 0.5)
    best = min((corner, middle), key=lambda centre: (x - centre[0]) ** 2 + 3 * (y - centre[1]) ** 2)
    return round(best[0] / 9, 9), round(best[1] * math.sqrt(3) / 9, 9)


def since_1970(time: datetime) -> int:
    return (time - datetime(1970, 1, 1)) // timedelta(microseconds=1)


def notes_on(result: Result, name: str) -> list[str]:
    return [note for note in result.notes if note.startswith(name)]


@pytest.fixture(scope="module")
def year() -> Result:
    [result] = run(open_trace(str(SAMPLE)), [Latency()])
    return result


@pytest.fixture(scope="module")
def trace() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.read_parquet(f"{SAMPLE}/**/*.parquet", hive_partitioning=False).create_view("trace")
        yield connection


def test_the_sample_trace_has_duckdbs_numbers(year: Result, trace: duckdb.DuckDBPyConnection) -> None:
    table = {row["measure"]: row for row in year.tables["latencies"].iter_rows(named=True)}
    for measure, query in QUERIES.items():
        values = [row["value"] for row in answer(trace, query)]
        assert table[measure]["requests"] == len(values)
        for percent in PERCENTS:
            assert table[measure][f"p{percent}"] == near(quantile(values, percent), OVERALL, measure)


def test_grids_of_the_sample_trace_are_duckdbs(year: Result, trace: duckdb.DuckDBPyConnection) -> None:
    for name, query in GRIDS.items():
        assert year.tables[f"{name}_grid"].rows() == cells(answer(trace, query, across=2_000, up=200))


def test_bands_of_the_sample_trace_are_duckdbs(year: Result, trace: duckdb.DuckDBPyConnection) -> None:
    edges = [0, *(step * 10**power for power in range(8) for step in (1, 2, 5))]
    query = """
        SELECT load, ttft, CASE WHEN ot > 1 THEN (dur - ttft) / (ot - 1) END AS tpot
        FROM served JOIN loads USING (instance, second)"""
    served, pairs = (grouped(answer(trace, text), edges) for text in (query, "SELECT load, members FROM loads"))
    table = year.tables["load"]
    assert table["load_from_tokens_per_s"].to_list() == sorted(pairs)
    assert table["load_to_tokens_per_s"].to_list() == [edges[edges.index(edge) + 1] for edge in sorted(pairs)]
    for row in table.iter_rows(named=True):
        edge = row["load_from_tokens_per_s"]
        assert row["instance_seconds"] == len(pairs[edge])
        assert row["requests"] == sum(pair["members"] for pair in pairs[edge])
        for name in ("ttft", "tpot"):
            values = [one[name] for one in served[edge] if one[name] is not None]
            assert row[f"{name}_requests"] == len(values)
            for percent in (50, 90, 99):
                expected = quantile(values, percent) if len(values) >= 30 else None
                assert row[f"{name}_p{percent}_s"] == near(expected, BY_LOAD)


def grouped(rows: list[Row], edges: list[int]) -> dict[int, list[Row]]:
    """Rows by the band of their load."""
    bands = defaultdict(list)
    for row in rows:
        bands[max(edge for edge in edges if edge <= row["load"])].append(row)
    return bands


def steady(columns: dict[str, object], rows: int = 100) -> pl.DataFrame:
    usual = {"input_tokens": 1_000, "output_tokens": 101, "instance": "i", "ttft_s": 0.5, "duration_s": 2.5, "stream": True}
    times = pl.DataFrame(
        {"timestamp": [START + timedelta(seconds=step) for step in range(rows)]}, {"timestamp": pl.Datetime("us")}
    )
    return times.with_columns(pl.lit(value).alias(name) for name, value in {**usual, **columns}.items())


def test_a_steady_server_has_its_numbers(measured: Measured) -> None:
    result = measured(Latency(), steady({}), [30])
    scalars = {name: result.scalars[name] for name in ("ttft_p50_s", "duration_p99_s", "tpot_p90_s", "prefill_share_p50")}
    assert scalars == {"ttft_p50_s": 0.5, "duration_p99_s": 2.5, "tpot_p90_s": 0.02, "prefill_share_p50": 0.2}
    assert (result.scalars["prefill_time_ratio"], result.scalars["alone_ratio"]) == (0.2, 1.0)
    assert result.tables["ttft_grid"].rows() == [(0, 0, 100, 0.5, 0.5)]


def test_a_ttft_of_a_request_that_did_not_stream_is_none(measured: Measured) -> None:
    result = measured(Latency(), steady({"stream": False}))
    assert (result.scalars["ttft_requests"], result.scalars["timed_requests"], result.scalars["duration_requests"]) == (0, 0, 100)
    assert result.scalars["ttft_p50_s"] is None
    assert any(note.startswith("100 requests have a TTFT though they did not stream.") for note in result.notes)
    assert measured(Latency(), steady({"stream": None})).scalars["ttft_requests"] == 100


@pytest.mark.parametrize(("rows", "shown"), [(49, 0), (50, 1)])
def test_a_cell_needs_fifty_requests(measured: Measured, rows: int, shown: int) -> None:
    tables = measured(Latency(), steady({}, rows)).tables
    assert (tables["duration_grid"].height, tables["ttft_grid"].height) == (shown, shown)


@pytest.mark.parametrize(("rows", "shown"), [(29, 0), (30, 1)])
def test_a_hexagon_and_a_band_need_thirty_requests(measured: Measured, rows: int, shown: int) -> None:
    tables = measured(Latency(), steady({}, rows)).tables
    assert (tables["load_ttft"].height, tables["load_decode"].height) == (shown, shown)
    assert tables["load"]["ttft_p50_s"].null_count() == 1 - shown
    assert tables["load"]["ttft_requests"].to_list() == [rows]


@pytest.mark.parametrize(
    ("columns", "note"),
    [
        ({"duration_s": None}, "The trace does not say duration_s: what rests on that is null or left out, not zero."),
        ({"ttft_s": None, "instance": None}, "The trace does not say ttft_s, instance: what rests on that is null"),
        ({"ttft_s": 0.0}, "100 requests have a TTFT of zero, which is taken as not measured."),
        ({"ttft_s": 3.0}, "100 requests have a TTFT above their duration: they have neither decode time nor prefill share."),
        (
            {"duration_s": 2e9},
            "100 requests took longer than 1,000,000,000 s, and are taken as that. They have no decode time.",
        ),
        ({}, "100.0% of the requests on known instances begin alone in their second: their load is their own tokens."),
    ],
)
def test_what_a_reader_must_know_is_said(measured: Measured, columns: dict[str, object], note: str) -> None:
    assert any(said.startswith(note) for said in measured(Latency(), steady(columns)).notes)


def test_no_ttft_is_above_a_duration_that_was_not_measured(measured: Measured) -> None:
    result = measured(Latency(), steady({"duration_s": 0.0}))
    assert "100 requests have a duration of zero, which is taken as not measured." in result.notes
    assert not [note for note in result.notes if "above" in note and "duration" in note]


@pytest.mark.parametrize(("ttft_s", "duration_s"), [(2e9, 3e9), (2e9, 1e9), (1e9, 2e9), (1.0, 2e9)])
def test_times_that_were_cut_have_no_decode_time(measured: Measured, ttft_s: float, duration_s: float) -> None:
    longest, usual = steady({"ttft_s": ttft_s, "duration_s": duration_s}), steady({"ttft_s": 1.0, "duration_s": 1e9})
    for frame, timed in ((longest, 0), (usual, 100)):
        result = measured(Latency(), frame, [30])
        assert (result.scalars["ttft_requests"], result.scalars["duration_requests"]) == (100, 100)
        assert result.scalars["timed_requests"] == timed
        found = dict(result.tables["latencies"].select("measure", "requests").iter_rows())
        assert {found.get(name, 0) for name in ("timed_duration_s", "decode_s", "tpot_s")} == {timed}
        assert result.tables["load_decode"]["requests"].sum() == timed


def test_half_a_trace_with_ttft_says_so(measured: Measured) -> None:
    frame = steady({}).with_columns(pl.when(pl.col("timestamp") < START + timedelta(seconds=40)).then("ttft_s").alias("ttft_s"))
    assert any(note.startswith("40 of 100 requests that did not fail have a TTFT") for note in measured(Latency(), frame).notes)


def test_a_model_that_is_not_there_is_told(measured: Measured) -> None:
    result = measured(Latency(("m", "none")), steady({"model": "m"}))
    assert "No request goes to 'none'." in result.notes
    assert set(result.tables["cdf"]["model"]) == {None, "m"}


def test_no_requests_need_no_notes(measured: Measured) -> None:
    assert measured(Latency(), steady({}, 0)).notes == ()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"input_step": 0}, "--input-step 0: out of range"),
        ({"output_step": -5}, "--output-step -5: out of range"),
        ({"output_step": 10**10}, "--output-step 10000000000: out of range"),
        ({"interval": "soon"}, "--interval soon: not a length of time"),
    ],
)
def test_parameters_are_checked(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Latency(**parameters)
