"""`latency` on the sample trace against DuckDB: what its models and its days take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from llmtrace.analyses.latency import Latency
from llmtrace.engine.local import run
from llmtrace.trace import open_trace

if TYPE_CHECKING:
    from llmtrace.result import Result

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "year"
OVERALL, OF_MODELS = 2**-12, 2**-8
ROUNDED = 1e-6
PERCENTS = (5, 25, 50, 75, 90, 95, 99)
MEASURES = {
    "ttft_s": ("ttft_s", "ttft_s > 0"),
    "duration_s": ("duration_s", "duration_s > 0"),
    "timed_duration_s": ("duration_s", "ttft_s > 0 AND ttft_s <= duration_s"),
    "decode_s": ("duration_s - ttft_s", "ttft_s > 0 AND ttft_s <= duration_s"),
    "prefill_share": ("ttft_s / duration_s", "ttft_s > 0 AND ttft_s <= duration_s AND duration_s < 300"),
    "tpot_s": ("(duration_s - ttft_s) / (output_tokens - 1)", "ttft_s > 0 AND ttft_s <= duration_s AND output_tokens > 1"),
}
"""What each measure is, and of which requests."""

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def year() -> Result:
    [result] = run(open_trace(str(SAMPLE)), [Latency(interval="1d")])
    return result


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    """The requests of the sample that did not fail, with a TTFT only where they stream."""
    connection = duckdb.connect()
    connection.execute(
        f"""CREATE TABLE served AS SELECT * REPLACE (CASE WHEN stream THEN ttft_s END AS ttft_s)
        FROM '{SAMPLE}/**/*.parquet' WHERE coalesce(status, 'ok') = 'ok'"""  # noqa: S608
    )
    return connection


@pytest.mark.parametrize("measure", MEASURES)
def test_models_of_the_sample(year: Result, database: duckdb.DuckDBPyConnection, measure: str) -> None:
    value, where = MEASURES[measure]
    at = ", ".join(str(percent / 100) for percent in PERCENTS)
    query = f"""SELECT model, count(*), avg({value}), min({value}), max({value}), quantile_cont({value}, [{at}])
        FROM served WHERE {where} GROUP BY 1"""  # noqa: S608
    expected = {row[0]: row[1:] for row in database.execute(query).fetchall()}
    table = year.tables["by_model"].filter(measure=measure)
    assert set(table["model"]) == set(expected)
    for row in table.rows(named=True):
        requests, mean, least, most, percentiles = expected[row["model"]]
        assert row["requests"] == requests
        assert [row[name] for name in ("mean", "min", "max")] == pytest.approx([mean, least, most], abs=ROUNDED)
        assert [row[f"p{percent}"] for percent in PERCENTS] == pytest.approx(percentiles, rel=OF_MODELS, abs=ROUNDED)


@pytest.mark.parametrize("measure", MEASURES)
def test_curves_of_the_sample(year: Result, database: duckdb.DuckDBPyConnection, measure: str) -> None:
    busiest = database.execute(
        f"SELECT model FROM '{SAMPLE}/**/*.parquet' GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 3"  # noqa: S608
    ).fetchall()
    value, where = MEASURES[measure]
    table = year.tables["cdf"].filter(measure=measure)
    assert table["model"].unique(maintain_order=True).to_list() == [None, *(model for (model,) in busiest)]
    for (model,), curve in table.partition_by("model", as_dict=True).items():
        own = "true" if model is None else f"model = '{model}'"
        shares = curve["cumulative_ratio"].to_list()
        query = f"SELECT quantile_cont({value}, {shares}) FROM served WHERE {where} AND {own}"  # noqa: S608
        [[expected]] = database.execute(query).fetchall()
        assert curve["value"].to_list() == pytest.approx(expected, rel=OVERALL if model is None else OF_MODELS, abs=ROUNDED)


@pytest.mark.parametrize("measure", ["ttft_s", "duration_s", "tpot_s"])
def test_days_of_the_sample(year: Result, database: duckdb.DuckDBPyConnection, measure: str) -> None:
    value, where = MEASURES[measure]
    name = measure.removesuffix("_s")
    query = f"""SELECT date_trunc('day', timestamp)::TIMESTAMP, count(*), quantile_cont({value}, [0.5, 0.9, 0.99])
        FROM served WHERE {where} GROUP BY 1 ORDER BY 1"""  # noqa: S608
    expected = {day: (count, *percentiles) for day, count, percentiles in database.execute(query).fetchall()}
    table = year.tables["over_time"]
    assert table.height > 300
    for day, count, *percentiles in table.select("time", f"{name}_requests", f"^{name}_p.*$").rows():
        assert count == expected.get(day, (0,))[0]
        if count:
            assert percentiles == pytest.approx(expected[day][1:], rel=OF_MODELS, abs=ROUNDED)
