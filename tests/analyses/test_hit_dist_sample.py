"""`hit-dist` on the sample trace against DuckDB and SciPy, asked with what the paper's definitions say and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import polars as pl
import pytest
from scipy.stats import kurtosis, skew

from llmtrace.analyses.hit_dist import HitDist
from llmtrace.engine.local import run
from llmtrace.trace import open_trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llmtrace.result import Result

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "year"
HALF_CELL, HALF_CELL_BY_MODEL = 0.0005, 0.005
TTFT_WITHIN = 2.0**-8


def sarle(values: Sequence[float]) -> float:
    """The coefficient with SciPy's bias-corrected moments."""
    size = len(values)
    spread = kurtosis(values, bias=False) + 3 * (size - 1) ** 2 / ((size - 2) * (size - 3))
    return float((skew(values, bias=False) ** 2 + 1) / spread)


@pytest.fixture(scope="module")
def sample() -> Result:
    [result] = run(open_trace(str(SAMPLE)), [HitDist(per_user=True)])
    return result


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    """The sample trace with `r`, the hit ratio of requests that have one."""
    connection = duckdb.connect()
    connection.execute(
        f"""CREATE TABLE logged AS SELECT *, least(cached_tokens / input_tokens, 1.0) AS r FROM '{SAMPLE}/**/*.parquet'
        WHERE coalesce(status, 'ok') = 'ok' AND cached_tokens IS NOT NULL AND input_tokens > 0"""  # noqa: S608
    )
    return connection


@pytest.mark.oracle
def test_the_sample_trace_as_duckdb_sees_it(sample: Result, database: duckdb.DuckDBPyConnection) -> None:
    scalars = sample.scalars
    [row] = database.execute(
        """SELECT count(*), sum(cached_tokens) / sum(input_tokens), avg(r), avg((r = 0)::INT), avg((r >= 0.95)::INT), median(r),
        count(DISTINCT model), count(DISTINCT "user"), min(timestamp), max(timestamp) FROM logged"""
    ).fetchall()
    assert scalars["measured_requests"] == row[0] > 40_000
    names = ("token_hit_ratio", "mean_request_hit_ratio", "share_zero", "share_full")
    assert [scalars[name] for name in names] == pytest.approx(row[1:5], abs=1e-9)
    assert scalars["median_hit_ratio"] == pytest.approx(row[5], abs=HALF_CELL)
    times = ("first_logged_timestamp", "last_logged_timestamp")
    assert (scalars["models"], scalars["users"], *(scalars[name] for name in times)) == row[6:]


@pytest.mark.oracle
def test_the_histogram_of_the_sample(sample: Result, database: duckdb.DuckDBPyConnection) -> None:
    expected = database.execute(
        """SELECT floor(50.0 * cached_tokens / input_tokens) / 50, count(*), sum(input_tokens), sum(cached_tokens)
        FROM logged GROUP BY 1"""
    ).fetchall()
    table = sample.tables["histogram"].filter(pl.col("requests") > 0)
    found = table.select("hit_ratio_from", "requests", "input_tokens", "cached_tokens").rows()
    assert found == sorted(expected)


@pytest.mark.oracle
@pytest.mark.parametrize(("column", "table"), [("model", "by_model"), ("user", "users")])
def test_models_and_users_of_the_sample(sample: Result, database: duckdb.DuckDBPyConnection, column: str, table: str) -> None:
    expected = database.execute(
        f"""SELECT "{column}", count(*), avg(r), sum(cached_tokens) / sum(input_tokens), avg((r = 0)::INT), avg((r >= 0.95)::INT)
        FROM logged GROUP BY 1 ORDER BY 1"""  # noqa: S608
    ).fetchall()
    names = ("measured_requests", "mean_request_hit_ratio", "token_hit_ratio", "share_zero", "share_full")
    found = sample.tables[table].filter(pl.col("measured_requests") > 0).sort(column).select(column, *names).rows()
    assert len(found) == len(expected) > 50
    for ours, theirs in zip(found, expected, strict=True):
        assert ours[:2] == theirs[:2]
        assert ours[2:] == pytest.approx(theirs[2:], abs=1e-9)


@pytest.mark.oracle
def test_the_grid_of_the_sample_is_the_papers(sample: Result, database: duckdb.DuckDBPyConnection) -> None:
    expected = database.execute(
        """SELECT input_tokens // 2000 * 2000, floor(10 * r) / 10, count(*), median(ttft_s), quantile_cont(ttft_s, 0.95)
        FROM logged WHERE ttft_s > 0 AND ttft_s < 300 AND input_tokens < 32000 GROUP BY ALL HAVING count(*) >= 200"""
    ).fetchall()
    table = sample.tables["ttft_by_hit"].filter(pl.col("input_tokens_from") < 32_000, pl.col("ttft_p50_s").is_not_null())
    found = table.select("input_tokens_from", "hit_ratio_from", "requests", "ttft_p50_s", "ttft_p95_s").rows()
    assert len(found) > 10
    for ours, theirs in zip(found, sorted(expected), strict=True):
        assert ours[:3] == theirs[:3]
        assert ours[3:] == pytest.approx(theirs[3:], rel=TTFT_WITHIN)


@pytest.mark.oracle
def test_the_shape_of_the_sample(sample: Result, database: duckdb.DuckDBPyConnection) -> None:
    rows = database.execute("SELECT r, model, input_tokens FROM logged").fetchall()
    values = pl.DataFrame(rows, ["r", "model", "input_tokens"], orient="row")
    assert sample.scalars["bimodality"] == pytest.approx(sarle(values["r"].to_list()), abs=1e-4)
    for row in sample.tables["by_model"].drop_nulls("bimodality").rows(named=True):
        own = values.filter(pl.col("model") == row["model"])["r"].to_list()
        assert row["bimodality"] == pytest.approx(sarle(own), abs=2e-3)
        assert row["hit_ratio_p90"] == pytest.approx(np.quantile(own, 0.9), abs=HALF_CELL_BY_MODEL)
    for row in sample.tables["by_input_length"].drop_nulls("bimodality").rows(named=True):
        band = pl.col("input_tokens").is_between(row["input_tokens_from"], row["input_tokens_to"] or 10**9, "left")
        assert row["bimodality"] == pytest.approx(sarle(values.filter(band)["r"].to_list()), abs=1e-4)


@pytest.mark.oracle
def test_bands_of_the_sample(sample: Result, database: duckdb.DuckDBPyConnection) -> None:
    table = sample.tables["by_input_length"]
    assert table["requests"].sum() == sample.scalars["measured_requests"]
    for row in table.rows(named=True):
        band = row["input_tokens_from"], row["input_tokens_to"] or 10**9
        [expected] = database.execute(
            """SELECT count(*), sum(input_tokens), sum(cached_tokens), avg(r), avg((r = 0)::INT), avg((r >= 0.95)::INT),
            quantile_cont(r, [0.1, 0.5, 0.9]) FROM logged WHERE input_tokens >= ? AND input_tokens < ?""",
            band,
        ).fetchall()
        assert (row["requests"], row["input_tokens"], row["cached_tokens"]) == expected[:3]
        found = [row[name] for name in ("mean_request_hit_ratio", "share_zero", "share_full")]
        assert found == pytest.approx(expected[3:6], abs=1e-9)
        assert row["token_hit_ratio"] == pytest.approx(expected[2] / expected[1])
        assert [row[f"hit_ratio_p{percent}"] for percent in (10, 50, 90)] == pytest.approx(expected[6], abs=HALF_CELL)


@pytest.mark.oracle
def test_curves_of_the_sample(sample: Result, database: duckdb.DuckDBPyConnection) -> None:
    top = [
        name for (name,) in database.execute("SELECT model FROM logged GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 3").fetchall()
    ]
    lengths = {
        "under 1,000": "input_tokens < 1000",
        "1,000 to 7,999": "input_tokens BETWEEN 1000 AND 7999",
        "8,000 and more": "input_tokens >= 8000",
    }
    groups = {("all", None): "true"} | {("input_length", name): where for name, where in lengths.items()}
    groups |= {("model", name): f"model = '{name}'" for name in top}
    curves = sample.tables["cdf"].partition_by("scope", "name", as_dict=True, maintain_order=True)
    assert list(curves) == list(groups)
    for group, curve in curves.items():
        rows = database.execute(f"SELECT input_tokens, cached_tokens FROM logged WHERE {groups[group]}").fetchall()  # noqa: S608
        inputs, cached = np.array(rows).T
        for step, shares in enumerate(curve.select("hit_ratio", "cumulative_ratio", "cumulative_tokens_ratio").rows()):
            below = 100 * np.minimum(cached, inputs) <= step * inputs
            assert shares[:2] == (step / 100, pytest.approx(below.mean()))
            assert shares[2] == (None if group[0] == "model" else pytest.approx(inputs[below].sum() / inputs.sum()))


@pytest.mark.oracle
def test_classes_of_users_of_the_sample(sample: Result, database: duckdb.DuckDBPyConnection) -> None:
    expected = database.execute(
        """WITH users AS (
            SELECT "user", count(*) AS n, avg(r) AS mean, sum(cached_tokens) / sum(input_tokens) AS tokens, sum(r) AS total,
                   sum(cached_tokens) AS cached, sum(input_tokens) AS input
            FROM logged GROUP BY 1)
        SELECT CASE WHEN n <= 10 THEN 1 WHEN n <= 100 THEN 11 WHEN n <= 1000 THEN 101 WHEN n <= 10000 THEN 1001 ELSE 10001 END,
               count(*), sum(n), sum(total) / sum(n), sum(cached) / sum(input), quantile_cont(mean, [0.1, 0.25, 0.5, 0.75, 0.9]),
               quantile_cont(tokens, [0.1, 0.25, 0.5, 0.75, 0.9])
        FROM users GROUP BY 1 ORDER BY 1"""
    ).fetchall()
    names = ("requests_from", "users", "measured_requests", "mean_request_hit_ratio", "token_hit_ratio")
    percents = [[f"{name}_p{percent}" for percent in (10, 25, 50, 75, 90)] for name in names[3:]]
    for found, row in zip(sample.tables["by_user"].rows(named=True), expected, strict=True):
        assert [found[name] for name in names] == [*row[:3], *(pytest.approx(value, abs=1e-9) for value in row[3:5])]
        for own, values in zip(percents, row[5:], strict=True):
            assert [found[name] for name in own] == pytest.approx(values, abs=1e-8)


@pytest.mark.oracle
def test_what_hits_save_in_the_sample(sample: Result, database: duckdb.DuckDBPyConnection) -> None:
    edges = [*range(0, 32_000, 2_000), 32_000, 64_000, 128_000, 10**9]
    compared = 0
    for found in sample.tables["ttft_saved"].rows(named=True):
        place = edges.index(found["input_tokens_from"])
        [row] = database.execute(
            """SELECT count(*), count(*) FILTER (r < 0.1), count(*) FILTER (r >= 0.9), median(ttft_s) FILTER (r < 0.1),
            median(ttft_s) FILTER (r >= 0.9)
            FROM logged WHERE ttft_s > 0 AND ttft_s < 300 AND input_tokens >= ? AND input_tokens < ?""",
            (edges[place], edges[place + 1]),
        ).fetchall()
        names = ("requests", "requests_without_hit", "requests_with_hit")
        assert tuple(found[name] for name in names) == row[:3]
        medians = [median if count >= 200 else None for count, median in zip(row[1:3], row[3:], strict=True)]
        for name, median in zip(("without", "with"), medians, strict=True):
            assert found[f"ttft_{name}_hit_p50_s"] == (None if median is None else pytest.approx(median, rel=TTFT_WITHIN))
        compared += found["saved_s"] is not None
    assert compared >= 4
