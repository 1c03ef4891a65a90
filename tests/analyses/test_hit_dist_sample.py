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
        band = pl.col("input_tokens").is_between(row["input_tokens_from"], row["input_tokens_to"], "left")
        assert row["bimodality"] == pytest.approx(sarle(values.filter(band)["r"].to_list()), abs=1e-4)
