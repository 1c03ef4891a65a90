"""`balance` against DuckDB, in queries written from the paper's definitions alone, and cases worked out by hand."""

# ruff: noqa: S608 - queries are put together from pieces of this file

from __future__ import annotations

from datetime import datetime, timedelta
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.analyses.balance import Balance, BusyDay, busy_day, with_busy_day
from llmtrace.analyses.balance.minutes import busiest_day
from llmtrace.analyses.latency import Latency
from llmtrace.engine.local import run
from llmtrace.errors import UsageError
from llmtrace.trace import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from llmtrace.result import Result

    Measured = Callable[..., Result]
    Row = tuple[Any, ...]

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "year"
START = datetime(2025, 4, 30, 22, 50)
LEAST, WINDOW_S = 60, 900
EDGES = sorted([0, *(step * 10**power for power in range(12) for step in (1, 2, 5))])

SERVED = """
WITH served AS (
    SELECT * REPLACE (coalesce(model, '?') AS model), date_trunc('minute', timestamp) AS minute,
           date_trunc('hour', timestamp) AS hour, epoch_us(timestamp) // ($width * 1000000::BIGINT) AS bucket,
           status IS NULL OR status = 'ok' AS good,
           CASE WHEN good THEN coalesce(input_tokens, 0) + coalesce(output_tokens, 0) ELSE 0 END AS tokens
    FROM trace WHERE instance IS NOT NULL),
shared AS (SELECT minute, instance, count(*) AS n, sum(tokens)::DOUBLE AS x FROM served GROUP BY ALL),
pooled AS (SELECT minute, instance, model, count(*) AS n, sum(tokens)::DOUBLE AS x FROM served GROUP BY ALL),
minutes AS (
    SELECT minute, sum(n)::BIGINT AS requests, count(*) AS instances, sum(x) AS tokens,
           count(*) >= 2 AND sum(n) >= 10 AND sum(x) > 0 AS valid, max(x) / avg(x) AS max_mean,
           sum(x) ^ 2 / (count(*) * sum(x * x)) AS jain, stddev_pop(x) / avg(x) AS cv
    FROM shared GROUP BY minute),
model_minutes AS (
    SELECT model, minute, sum(n)::BIGINT AS requests, count(*) AS instances, sum(x) AS tokens,
           count(*) >= 2 AND sum(n) >= 10 AND sum(x) > 0 AS valid, max(x) / avg(x) AS max_mean,
           sum(x) ^ 2 / (count(*) * sum(x * x)) AS jain, stddev_pop(x) / avg(x) AS cv
    FROM pooled GROUP BY model, minute),
pools AS (SELECT bucket, model, count(DISTINCT instance) AS n, sum(tokens) AS tokens FROM served GROUP BY ALL),
copies AS (
    SELECT bucket, model, who, instance, count(*) AS requests, max(tokens) AS largest
    FROM served WHERE who IS NOT NULL GROUP BY ALL),
keys AS (
    SELECT bucket, model, who, sum(requests) AS requests, count(*) AS copies, sum(largest) AS physical, max(largest) AS logical
    FROM copies GROUP BY ALL),
cells AS (
    SELECT bucket, model, any_value(n) AS instances, any_value(tokens) AS tokens, count(*) AS keys, sum(requests) AS requests,
           sum(copies) AS copies, sum(n * (1 - (1 - 1 / n) ^ requests)) AS scattered, sum(physical) AS physical,
           sum(logical) AS logical
    FROM keys JOIN pools USING (bucket, model) GROUP BY ALL),
visits AS (
    SELECT *, good AND input_tokens > 0 AND cached_tokens IS NOT NULL AS logged FROM served WHERE "user" IS NOT NULL),
hours AS (
    SELECT "user", hour, count(*) AS requests, count(DISTINCT instance) AS instances,
           sum(input_tokens) FILTER (logged) AS inputs, sum(cached_tokens) FILTER (logged) AS cached
    FROM visits GROUP BY ALL HAVING count(*) >= $least AND coalesce(inputs, 0) > 0),
busiest AS (
    SELECT *, cached / inputs AS hit, CASE WHEN hit >= 0.4 THEN 'high' WHEN hit <= 0.2 THEN 'low' ELSE 'medium' END AS tier
    FROM hours QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY requests DESC, hour) = 1),
parts AS (
    SELECT "user", hour, instance, count(*) AS requests, sum(input_tokens) FILTER (logged) AS inputs, min(timestamp) AS first,
           sum(cached_tokens) FILTER (logged) AS cached,
           cached / inputs AS hit,
           CASE WHEN hit >= 0.4 THEN 'high' WHEN hit <= 0.2 THEN 'low' WHEN hit IS NOT NULL THEN 'medium' END AS tier
    FROM visits SEMI JOIN busiest USING ("user", hour) GROUP BY ALL),
tiers AS (
    SELECT "user", sum(CASE WHEN tier = 'high' THEN requests ELSE 0 END) AS high,
           sum(CASE WHEN tier = 'medium' THEN requests ELSE 0 END) AS medium,
           sum(CASE WHEN tier = 'low' THEN requests ELSE 0 END) AS low
    FROM parts GROUP BY "user")
"""
MEANS = "avg(max_mean) FILTER (valid), avg(jain) FILTER (valid), avg(cv) FILTER (valid)"
RATIOS = """sum(copies) / sum(keys), sum(scattered) / sum(keys),
    CASE WHEN sum(requests) > sum(keys) THEN (sum(copies) - sum(keys)) / (sum(requests) - sum(keys)) END,
    CASE WHEN sum(requests) > sum(keys) THEN (sum(scattered) - sum(keys)) / (sum(requests) - sum(keys)) END,
    CASE WHEN sum(logical) > 0 THEN sum(physical) / sum(logical) END"""
COPIES = [
    "keys",
    "instances_per_key",
    "scattered_instances_per_key",
    "new_instance_ratio",
    "scattered_new_instance_ratio",
    "replication",
]
COLUMNS = {
    "load": ["time", "requests", "instances", "max_mean", "jain", "cv", "tokens", "minutes", "valid_minutes"],
    "load_by_minute": ["time", "requests", "instances", "tokens", "max_mean", "jain", "cv"],
    "by_model": ["model", "requests", "tokens", "minutes", "active_instances", "valid_minutes", "max_mean", "jain", "cv"],
    "instances": ["instance", "requests", "tokens", "tokens_ratio"],
    "replication_by_window": ["time", "instances", "requests", "tokens_per_s", *COPIES],
    "regime_users": [
        "user",
        "time",
        "requests",
        "instances",
        "token_hit_ratio",
        "tier",
        "high_ratio",
        "medium_ratio",
        "low_ratio",
    ],
}
QUERIES = {
    "load": f"""SELECT date_trunc('hour', minute) AS h, sum(requests)::BIGINT, median(instances), {MEANS}, sum(tokens)::BIGINT,
        count(*), count(*) FILTER (valid) FROM minutes GROUP BY h ORDER BY h""",
    "load_by_minute": """SELECT minute, requests, instances, tokens::BIGINT, CASE WHEN valid THEN max_mean END,
        CASE WHEN valid THEN jain END, CASE WHEN valid THEN cv END FROM minutes ORDER BY minute""",
    "by_model": f"""SELECT model, sum(requests)::BIGINT AS requests, sum(tokens)::BIGINT AS tokens, count(*), avg(instances),
        count(*) FILTER (valid), {MEANS} FROM model_minutes GROUP BY model ORDER BY tokens DESC, requests DESC, model""",
    "instances": """SELECT instance, count(*) AS requests, sum(tokens)::BIGINT AS tokens,
        sum(tokens) / nullif((SELECT sum(tokens) FROM served), 0)
        FROM served GROUP BY instance ORDER BY tokens DESC, requests DESC, instance LIMIT 1000""",
    "replication_by_window": f"""SELECT make_timestamp(bucket * $width * 1000000::BIGINT),
        sum(instances)::BIGINT, sum(requests)::BIGINT, sum(every) / $width, sum(keys)::BIGINT, {RATIOS} FROM (
            SELECT pools.bucket, pools.n AS instances, pools.tokens AS every, keys, requests, copies, scattered, physical, logical
            FROM pools LEFT JOIN cells USING (bucket, model))
        GROUP BY bucket HAVING sum(keys) > 0 ORDER BY bucket""",
    "regime_users": """SELECT "user", busiest.hour, busiest.requests, instances, busiest.hit, busiest.tier,
        high / busiest.requests, medium / busiest.requests, low / busiest.requests
        FROM busiest JOIN tiers USING ("user") ORDER BY busiest.requests DESC, "user" LIMIT 1000""",
}
ORACLE = duckdb.connect(config={"threads": 1})


def ask(frame: pl.DataFrame, query: str, **given: object) -> list[Row]:
    """DuckDB's answer; of what a key is made says `who`."""
    trace = frame.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in NULLABLE.items() if name not in frame.columns)
    trace = trace.with_columns(pl.col(given.pop("by", "user")).alias("who"))  # type: ignore[arg-type]
    ORACLE.register("trace", trace.to_arrow())
    asked = {"width": WINDOW_S, "least": LEAST} | given
    ORACLE.execute(SERVED + query, {name: value for name, value in asked.items() if f"${name}" in SERVED + query})
    rows = ORACLE.fetchall()
    ORACLE.unregister("trace")
    return rows


NULLABLE = {"user": pl.String, "model": pl.String, "session": pl.String, "status": pl.String, "cached_tokens": pl.Int64}


def assert_rows(found: Iterable[Row], expected: Iterable[Row]) -> None:
    found, expected = list(found), list(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert mine == (pytest.approx(theirs, rel=1e-9, abs=4e-6) if isinstance(theirs, float) else theirs)


def table(result: Result, name: str) -> list[Row]:
    frame = result.tables[name]
    if name == "load":
        frame = frame.filter(pl.col("requests") > 0)
    if name == "by_model":
        frame = frame.with_columns(pl.col("model").fill_null("?"))
    return frame.select(COLUMNS[name]).rows()


def assert_agrees(result: Result, frame: pl.DataFrame, **given: object) -> None:
    """Every table on load and copies is DuckDB's."""
    for name, query in QUERIES.items():
        assert_rows(table(result, name), ask(frame, query, **given))
    by_model = {
        row[0]: row[1:] for row in ask(frame, f"SELECT model, sum(keys)::BIGINT, {RATIOS} FROM cells GROUP BY model", **given)
    }
    copies = result.tables["by_model"].with_columns(pl.col("model").fill_null("?")).select("model", *COPIES)
    assert_rows(copies.filter(pl.col("keys") > 0).sort("model").rows(), [(name, *by_model[name]) for name in sorted(by_model)])
    assert_rows(_by_load(result), _expected_by_load(frame, **given))
    scalars = result.scalars
    [means] = ask(
        frame, f"SELECT {MEANS}, count(*), count(*) FILTER (valid), median(instances), max(instances) FROM minutes", **given
    )
    names = ("imbalance_max_mean", "jain", "cv", "minutes", "valid_minutes", "active_instances_p50", "active_instances_max")
    assert_rows([tuple(scalars[name] for name in names)], [means])
    within = ("within_model_imbalance_max_mean", "within_model_jain", "within_model_cv")
    assert_rows([tuple(scalars[name] for name in within)], ask(frame, f"SELECT {MEANS} FROM model_minutes", **given))
    [ratios] = ask(frame, f"SELECT coalesce(sum(keys), 0)::BIGINT, {RATIOS} FROM cells", **given)
    assert_rows([tuple(scalars[name] for name in COPIES)], [ratios])
    totals = "SELECT sum(tokens)::DOUBLE AS x FROM served GROUP BY instance"
    [total] = ask(
        frame,
        f"SELECT count(*), max(x) / nullif(avg(x), 0), sum(x) ^ 2 / nullif(count(*) * sum(x * x), 0), "
        f"stddev_pop(x) / nullif(avg(x), 0) FROM ({totals})",
        **given,
    )
    assert_rows([tuple(scalars[name] for name in ("instances", "total_imbalance_max_mean", "total_jain", "total_cv"))], [total])


def _by_load(result: Result) -> list[Row]:
    bands = result.tables["replication_by_load"]
    return bands.select("load_of", "load_from_tokens_per_s", "cells", "instances", "requests", *COPIES).rows()


def _expected_by_load(frame: pl.DataFrame, **given: object) -> list[Row]:
    found = []
    for of, load in (("model", "tokens"), ("instance", "tokens / instances")):
        band = f"list_max(list_filter({EDGES}::BIGINT[], lambda edge: edge * $width <= {load}))"
        query = f"""SELECT '{of}', {band} AS band, count(*), sum(instances)::BIGINT, sum(requests)::BIGINT,
            sum(keys)::BIGINT, {RATIOS} FROM cells GROUP BY band ORDER BY band"""
        found += ask(frame, query, **given)
    return found


def some_requests(seed: int, rows: int) -> pl.DataFrame:
    """Minutes, windows and hours met on and beside their borders, few names, nulls, and tokens that are the same or none."""
    rng = np.random.default_rng(seed)
    on_borders = rng.choice([0, 600, 1_200, 4_200], rows) * 1_000_000 + rng.integers(-1, 2, rows)
    offsets = np.where(
        rng.random(rows) < 0.3, np.maximum(on_borders, 0), rng.integers(0, rng.choice([90, 9_000]) * 1_000_000, rows)
    )
    inputs = rng.choice([0, 1, 700, 700, 20_000, 1_000_000], rows)
    values: dict[str, Any] = {
        "timestamp": np.datetime64(START, "us") + np.sort(offsets).astype("timedelta64[us]"),
        "input_tokens": inputs,
        "output_tokens": rng.choice([0, 1, 300], rows),
        "cached_tokens": inputs * rng.choice([0, 2, 3, 4, 10], rows) // 10,
        "user": rng.choice(["u1", "u2", "u3"], rows, p=[0.6, 0.3, 0.1]),
        "session": rng.choice(["s1", "s2", "s3", "s4"], rows),
        "model": rng.choice(["m1", "m2"], rows, p=[0.8, 0.2]),
        "instance": rng.choice(["i1", "i2", "i3", "i4"], rows, p=[0.4, 0.3, 0.2, 0.1]),
        "status": rng.choice(["ok", "timeout"], rows, p=[0.9, 0.1]),
    }
    unknown = {name: rng.random(rows) < rng.choice([0, 0.1, 1], p=[0.6, 0.35, 0.05]) for name in values if name != "timestamp"}
    return pl.DataFrame(values).with_columns(pl.when(~pl.Series(nulls)).then(name).alias(name) for name, nulls in unknown.items())


REQUESTS = st.builds(some_requests, st.integers(0, 10**6), st.integers(0, 150))
CUTS = st.lists(st.integers(0, 150), max_size=3)


@given(frame=REQUESTS, cuts=CUTS, by=st.sampled_from(["user", "session"]), window=st.sampled_from(["7s", "15m", "1h"]))
def test_tables_are_those_of_queries(measured: Measured, frame: pl.DataFrame, cuts: list[int], by: str, window: str) -> None:
    analysis = Balance(window, by, 5, all_rows=True)
    result = measured(analysis, frame, [min(cut, frame.height) for cut in cuts])
    width = {"7s": 7, "15m": 900, "1h": 3600}[window]
    assert_agrees(result, frame, by=by, width=width, least=5)


@pytest.fixture(scope="module")
def sample() -> tuple[Result, pl.DataFrame]:
    trace = open_trace(str(SAMPLE))
    [result] = run(trace, [Balance(min_requests=LEAST, all_rows=True)])
    frame = pl.read_parquet(SAMPLE / "**" / "*.parquet").sort("timestamp")
    return result, frame


def test_the_sample_has_the_tables_of_queries(sample: tuple[Result, pl.DataFrame]) -> None:
    assert_agrees(*sample)
    assert {name: sample[0].scalars[name] for name in ("requests", "placed_requests", "instances", "models")} == {
        "requests": 200_000,
        "placed_requests": 196_568,
        "instances": 1_373,
        "models": 51,
    }


def test_the_sample_has_the_latencies_by_load_of_latency(sample: tuple[Result, pl.DataFrame]) -> None:
    [other] = run(open_trace(str(SAMPLE)), [Latency()])
    for name in ("load_ttft", "load_decode"):
        assert sample[0].tables[name].rows() == other.tables[name].rows()
    measures = other.tables["latencies"].filter(pl.col("measure").is_in(["ttft_s", "decode_s"]))
    assert sample[0].tables["latencies"].rows() == measures.rows()


def test_the_users_of_the_figure_are_picked_as_in_the_paper(sample: tuple[Result, pl.DataFrame]) -> None:
    result, frame = sample
    high = [row for row in ask(frame, QUERIES["regime_users"]) if row[5] == "high"]
    expected = []
    for pick, user in (
        ("top", min(high, key=lambda row: (-row[2], row[0]))[0]),
        ("min", min(high, key=lambda row: (row[2], row[0]))[0]),
    ):
        rows = ask(
            frame,
            f"""SELECT '{pick}', "user", hour, instance, requests, requests / (sum(requests) OVER ()), inputs, cached,
            hit, tier FROM parts WHERE "user" = '{user}' ORDER BY first""",
        )
        expected += rows
    assert_rows(result.tables["regimes"].rows(), expected)
    assert {row[0] for row in expected} == {"top", "min"}
    tiers = [row[5] for row in ask(frame, QUERIES["regime_users"])]
    assert [result.scalars[f"{tier}_tier_users"] for tier in ("high", "medium", "low")] == [
        tiers.count(tier) for tier in ("high", "medium", "low")
    ]


def rolling(minutes: pl.DataFrame) -> tuple[datetime, float]:
    """The busiest 24 hours by a mean over every minute there is."""
    places = (minutes["time"] - minutes["time"][0]).dt.total_minutes().to_numpy()
    active = np.zeros(int(places[-1]) + 1)
    active[places] = minutes["instances"].to_numpy()
    length = min(1_440, active.size)
    means = np.convolve(active, np.ones(length), "valid") / length
    best = int(np.argmax(np.round(means * length)))
    return minutes["time"][0] + timedelta(minutes=best), float(means[best])


def test_the_busiest_day_of_the_sample_is_that_of_a_rolling_mean(sample: tuple[Result, pl.DataFrame]) -> None:
    result, _ = sample
    start, mean = rolling(result.tables["load_by_minute"])
    assert result.scalars["busiest_day_time"] == start
    assert result.scalars["busiest_day_instances"] == pytest.approx(mean)


@given(st.dictionaries(st.integers(0, 4_000), st.integers(1, 9), min_size=1, max_size=40))
def test_the_busiest_day_is_that_of_a_rolling_mean(active: dict[int, int]) -> None:
    times = [START + timedelta(minutes=minute) for minute in sorted(active)]
    minutes = pl.DataFrame({"time": times, "instances": [active[minute] for minute in sorted(active)]})
    start, mean = rolling(minutes)
    found = busiest_day(minutes)
    assert found is not None
    assert found[0] == start
    assert found[1] == pytest.approx(mean)


def test_the_heat_map_of_the_sample_is_that_of_a_query(sample: tuple[Result, pl.DataFrame]) -> None:
    result, frame = sample
    day = busy_day(result, 20, datetime(1970, 1, 1))
    assert day is not None
    [found] = run(open_trace(str(SAMPLE)), [day])
    whole = with_busy_day(result, found)
    busiest = """SELECT instance, count(*) AS n, min(timestamp) AS first FROM served WHERE timestamp >= $start
        AND timestamp < $start + INTERVAL 1 DAY GROUP BY instance ORDER BY n DESC, instance LIMIT 20"""
    rows = ask(
        frame,
        f""", busy AS ({busiest}), ranked AS (SELECT instance, row_number() OVER (ORDER BY first, instance) AS place FROM busy)
        SELECT place, instance, minute, count(*) FROM served JOIN ranked USING (instance) WHERE timestamp >= $start
        AND timestamp < $start + INTERVAL 1 DAY GROUP BY ALL ORDER BY place, minute""",
        start=day.start,
    )
    assert whole.tables["heat_map"].rows() == rows
    counts = [row[3] for row in rows]
    assert whole.scalars["heat_map_p5_requests"] == pytest.approx(np.percentile(counts, 5))
    assert whole.scalars["heat_map_p99_requests"] == pytest.approx(np.percentile(counts, 99))
    assert any("20 instances with most requests" in note for note in whole.notes)


def requests(*rows: Row) -> pl.DataFrame:
    """Rows of second, user, model, instance, input, output, cached tokens."""
    counts = ("input_tokens", "output_tokens", "cached_tokens")
    schema = {"second": pl.Int64, **dict.fromkeys(("user", "model", "instance"), pl.String), **dict.fromkeys(counts, pl.Int64)}
    frame = pl.DataFrame(rows, schema, orient="row")
    return frame.select((pl.lit(START) + pl.duration(seconds="second")).alias("timestamp"), pl.exclude("second"))


def test_a_minute_by_hand(measured: Measured) -> None:
    """Twelve requests of 100 tokens on two instances, nine on one; then a minute of nine, which are too few."""
    rows = [(second, "u", "m", "i1" if second < 9 else "i2", 90, 10, None) for second in range(12)]
    rows += [(60 + second, "u", "m", f"i{second}", 90, 10, None) for second in range(9)]
    result = measured(Balance(), requests(*rows))
    jain = 1200**2 / (2 * (900**2 + 300**2))
    [first, second] = result.tables["load_by_minute"].rows()
    assert first == (START, 12, 2, 1_200, 1.5, pytest.approx(jain), 0.5)
    assert second == (START + timedelta(minutes=1), 9, 9, 900, None, None, None)
    [hour] = result.tables["load"].rows(named=True)
    assert (hour["requests"], hour["instances"], hour["max_mean"], hour["valid_minutes"]) == (21, 5.5, 1.5, 1)
    assert result.scalars["imbalance_max_mean"] == 1.5
    # Over both minutes i1 has 1,000 tokens, i2 400 and seven others 100 each: i0 and i3 to i8.
    assert result.scalars["total_imbalance_max_mean"] == pytest.approx(1_000 / (2_100 / 9))
    assert result.scalars["total_jain"] == pytest.approx(2_100**2 / (9 * (1_000**2 + 400**2 + 7 * 100**2)))
    assert result.scalars["total_cv"] == pytest.approx(sqrt(9 * (1_000**2 + 400**2 + 7 * 100**2) / 2_100**2 - 1))


def test_copies_by_hand(measured: Measured) -> None:
    """User a has contexts of 100, 150 tokens on one instance and 200 on another; b stays where it is; two models do not mix."""
    rows = [(0, "a", "m", "i1", 90, 10, None), (1, "a", "m", "i1", 130, 20, None), (2, "a", "m", "i2", 180, 20, None)]
    rows += [(3, "b", "m", "i1", 40, 10, None), (4, "b", "m", "i1", 60, 10, None), (5, "a", "n", "i3", 10, 0, None)]
    result = measured(Balance(), requests(*rows))
    expected = {
        "keys": 3,
        "instances_per_key": 4 / 3,
        # Of two instances, three requests at random meet 2·(1 - 1/8), two meet 2·(1 - 1/4); the one of model n meets one.
        "scattered_instances_per_key": pytest.approx((1.75 + 1.5 + 1) / 3, abs=2e-6),
        "new_instance_ratio": 1 / 3,
        "replication": (150 + 200 + 70 + 10) / (200 + 70 + 10),
    }
    assert {name: result.scalars[name] for name in expected} == pytest.approx(expected)
    [window] = result.tables["replication_by_window"].rows(named=True)
    assert (window["time"], window["instances"], window["requests"]) == (START - timedelta(minutes=5), 3, 6)
    assert window["tokens_per_s"] == pytest.approx(580 / 900)


def test_regimes_by_hand(measured: Measured) -> None:
    """Four fifths of u's input come from cache on i1, nothing on i2, a third on i3, and i4 logs nothing."""
    rows: list[Row] = [(0, "u", "m", "i2", 100, 0, 0), (1, "u", "m", "i1", 500, 0, 400), (2, "u", "m", "i3", 300, 0, 100)]
    rows += [(3, "u", "m", "i4", 999, 0, None), (4, "v", "m", "i1", 100, 0, 100)]
    result = measured(Balance(min_requests=4), requests(*rows))
    found = result.tables["regimes"].select("pick", "instance", "requests_ratio", "token_hit_ratio", "tier").rows()
    assert found == [
        ("top", "i2", 0.25, 0.0, "low"),
        ("top", "i1", 0.25, 0.8, "high"),
        ("top", "i3", 0.25, pytest.approx(1 / 3), "medium"),
        ("top", "i4", 0.25, None, None),
    ]
    [user] = result.tables["regime_users"].rows(named=True)
    assert (user["token_hit_ratio"], user["tier"]) == (500 / 900, "high")
    assert (user["high_ratio"], user["medium_ratio"], user["low_ratio"]) == (0.25, 0.25, 0.25)
    assert (result.scalars["regime_users"], result.scalars["mixed_users"]) == (1, 1)


def test_what_is_left_out_is_told_and_empty(measured: Measured) -> None:
    frame = some_requests(3, 60)
    result = measured(Balance(skip=("replication", "regimes", "latency")), frame)
    empty = ("replication_by_load", "replication_by_window", "regimes", "regime_users", "load_ttft", "load_decode", "latencies")
    assert all(result.tables[name].is_empty() for name in empty)
    assert {result.scalars[name] for name in ("windows", "keys", "replication", "regime_users", "mixed_users")} == {None}
    whole = measured(Balance(), frame)
    for name in ("load", "load_by_minute", "instances"):
        assert result.tables[name].rows() == whole.tables[name].rows()


def test_long_tables_are_given_on_request_only(measured: Measured) -> None:
    frame = requests(*((60 * minute, "u", "m", "i", 1, 1, None) for minute in range(10_081)))
    result, asked = (measured(Balance("1m", all_rows=wanted), frame) for wanted in (False, True))
    for name in ("load_by_minute", "replication_by_window"):
        assert (result.tables[name].height, asked.tables[name].height) == (0, 10_081)
        assert [note for note in result.notes if note.startswith(f"{name} would have 10,081 rows")]
    assert not [note for note in asked.notes if "would have" in note]


def test_hours_without_requests_have_rows(measured: Measured) -> None:
    found = measured(Balance(), requests((0, "u", "m", "i", 1, 1, None), (7_200, "u", "m", "i", 1, 1, None))).tables["load"]
    assert found.select("requests", "instances", "max_mean", "tokens").rows() == [
        (1, 1.0, None, 2),
        (0, None, None, 0),
        (1, 1.0, None, 2),
    ]


def test_huge_loads_stop_and_are_told(measured: Measured) -> None:
    most = 2**63 - 1
    rows = [(second, "u", "m", f"i{second % 2}", most, most, None) for second in range(12)]
    result = measured(Balance(), requests(*rows))
    assert result.tables["load_by_minute"]["tokens"].to_list() == [2 * (2**32 - 1)]
    assert (result.scalars["imbalance_max_mean"], result.scalars["jain"], result.scalars["cv"]) == (1.0, 1.0, 0.0)
    assert "12 requests have more than 4,294,967,295 tokens and are taken as that." in result.notes


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ((0, "u", "m", None, 1, 1, None), "1 of 1 request names no instance: it counts nowhere else."),
        (
            (0, None, "m", "i", 1, 1, None),
            "No request names a user, so nothing is known of copies; --by session takes another key.",
        ),
        ((0, "u", "m", "i", 1, 1, None), "No cached tokens are logged, so nothing is known of hits by instance"),
        ((0, "u", "m", "i", 1, 1, 0), "No user has 200 requests with logged cached tokens in a clock hour"),
        ((0, None, "m", "i", 1, 1, 0), "No request names a user, so nothing is known of users between instances."),
    ],
)
def test_what_is_not_known_is_told_and_not_zero(measured: Measured, row: Row, sentence: str) -> None:
    result, (_, user, _, instance, _, _, cached) = measured(Balance(), requests(row)), row
    assert [note for note in result.notes if note.startswith(sentence)]
    assert (result.scalars["keys"] is None) == (user is None)
    assert (result.scalars["regime_users"] is None) == (instance is not None and None in {user, cached})


def test_a_trace_without_known_instances_has_no_busiest_day(measured: Measured) -> None:
    result = measured(Balance(), requests((0, "u", "m", None, 1, 1, None)))
    assert (result.scalars["busiest_day_time"], result.scalars["instances"], result.scalars["jain"]) == (None, 0, None)
    assert busy_day(result, 10, START) is None


def test_a_day_on_a_relative_clock_begins_at_its_seconds(measured: Measured) -> None:
    result = measured(Balance(), requests((30, "u", "m", "i", 1, 1, None))).on_relative_clock(START + timedelta(seconds=30))
    assert busy_day(result, 7, START + timedelta(seconds=30)) == BusyDay(START, 7)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"window": "1x"}, "--window 1x: not a length of time"),
        ({"by": "model"}, "--by model: not a key"),
        ({"min_requests": 0}, "--min-requests 0: out of range"),
        ({"skip": ("load",)}, "--skip load: there is no such part"),
    ],
)
def test_parameters_are_checked(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Balance(**wrong)
