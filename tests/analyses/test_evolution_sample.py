"""`evolution` on the sample trace against DuckDB and SciPy, asked with what the paper's definitions say and nothing else."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import polars as pl
import pytest
from scipy.stats import ks_2samp, wasserstein_distance

from llmtrace.analyses.evolution import Evolution
from llmtrace.engine.local import run
from llmtrace.trace import open_trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from llmtrace.result import Result

    Database = duckdb.DuckDBPyConnection

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "year"
SIDES = ("input_tokens", "output_tokens")
OF_PERIODS, OF_USERS = 2**-12, 2**-7
"""Within what percentiles of periods and medians of users are, relative to the true ones."""
EXACT = 1e-9

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def sample() -> Result:
    [result] = run(open_trace(str(SAMPLE)), [Evolution()])
    return result


@pytest.fixture(scope="module")
def database() -> Database:
    """The sample trace with the month of each request, and its models by how many requests they have."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(
        f"""CREATE TABLE trace AS
        SELECT *, date_trunc('month', timestamp)::TIMESTAMP AS month, coalesce(status, 'ok') = 'ok' AS ok,
               ok AND input_tokens > 0 AND output_tokens > 0 AS whole
        FROM read_parquet('{SAMPLE}/**/*.parquet', hive_partitioning = false)"""  # noqa: S608
    )
    connection.execute(
        """CREATE TABLE busiest AS
        SELECT model, least(row_number() OVER (ORDER BY count(*) DESC, model), 11) AS place,
               if(place <= 10, model, 'Others') AS name
        FROM trace GROUP BY model"""
    )
    connection.execute(
        """CREATE TABLE moves AS
        WITH counts AS (SELECT month, "user", model, count(*) AS n FROM trace GROUP BY ALL),
        mains AS (SELECT month, "user", model FROM counts
                  QUALIFY row_number() OVER (PARTITION BY month, "user" ORDER BY n DESC, model) = 1)
        SELECT later.month, earlier.model AS one, later.model AS other
        FROM mains AS later JOIN mains AS earlier
        ON later."user" = earlier."user" AND earlier.month = later.month - INTERVAL 1 MONTH"""
    )
    return connection


def assert_rows(table: pl.DataFrame, expected: Sequence[Sequence[object]], rel: float = EXACT) -> None:
    """The same rows in the same order; numbers that are no counts within a relative bound."""
    found = table.rows()
    assert len(found) == len(expected) > 0
    for mine, theirs in zip(found, expected, strict=True):
        assert list(mine) == [pytest.approx(one, rel=rel) if isinstance(one, float) else one for one in theirs]


def flat(rows: Sequence[Any]) -> list[list[object]]:
    """Rows whose lists are columns of their own."""
    return [list(chain.from_iterable(one if isinstance(one, list) else [one] for one in row)) for row in rows]


def test_active_models_and_users(sample: Result, database: Database) -> None:
    table = sample.tables["active"]
    expected = database.execute(
        """SELECT month, count(*), sum(input_tokens) FILTER (ok)::BIGINT, sum(output_tokens) FILTER (ok)::BIGINT,
        count(DISTINCT model), count(DISTINCT "user") FROM trace GROUP BY month ORDER BY month"""
    ).fetchall()
    assert_rows(table.select("time", "requests", *SIDES, "models", "users"), expected)
    effective = database.execute(
        """WITH counts AS (SELECT month, count(*) AS n FROM trace GROUP BY month, model)
        SELECT sum(n) * sum(n) / sum(n * n) FROM counts GROUP BY month ORDER BY month"""
    ).fetchall()
    assert_rows(table.select("effective_models"), effective)


@pytest.mark.parametrize(
    ("column", "query"),
    [
        (
            "new_models",
            "SELECT month, count(*) FROM (SELECT min(month) AS month FROM trace GROUP BY model) GROUP BY 1 ORDER BY 1",
        ),
        (
            "new_users",
            'SELECT month, count(*) FROM (SELECT min(month) AS month FROM trace GROUP BY "user") GROUP BY 1 ORDER BY 1',
        ),
    ],
)
def test_new_models_and_users(sample: Result, database: Database, column: str, query: str) -> None:
    assert_rows(sample.tables["active"].select("time", column).filter(pl.col(column) > 0), database.execute(query).fetchall())


def test_the_first_and_the_last_month_are_partial(sample: Result, database: Database) -> None:
    [(first, last)] = database.execute(
        "SELECT strftime(min(timestamp), '%x'), strftime(max(timestamp), '%x') FROM trace"
    ).fetchall()
    assert (first, last) == ("2025-04-11", "2026-04-10")
    for table in ("active", "tokens_by_month", "cohorts"):
        assert sample.tables[table]["partial"].to_list() == [True, *[False] * 11, True]
    assert sample.scalars["partial_periods"] == 2
    first, last = sample.tables["active"]["time"].to_list()[:: len(sample.tables["active"]) - 1]
    for table in ("model_share", "retention"):
        rows = sample.tables[table].select("time", "partial").rows()
        assert all(partial == (time in {first, last}) for time, partial in rows)
    assert sample.tables["switching"]["partial"].to_list() == [True, *[False] * 10, True]


def test_the_mix_of_models(sample: Result, database: Database) -> None:
    """Figure 10: the ten busiest of the year and all others, as shares of everything in the month."""
    expected = database.execute(
        """WITH named AS (
            SELECT month, place, name, count(DISTINCT model) AS models, count(*) AS n,
                   sum(if(ok, coalesce(input_tokens, 0) + coalesce(output_tokens, 0), 0)) AS tokens
            FROM trace JOIN busiest USING (model) GROUP BY ALL)
        SELECT month, name, models, n, n / sum(n) OVER own, tokens::BIGINT, (tokens / sum(tokens) OVER own)::DOUBLE
        FROM named WINDOW own AS (PARTITION BY month) ORDER BY month, place"""
    ).fetchall()
    table = sample.tables["model_share"].drop("rank", "partial")
    assert table.height == 13 * 11
    assert_rows(table.filter(pl.col("requests") > 0), expected)
    # Models that rest in a month have a row too.
    resting = table.filter(pl.col("requests") == 0).select("models", "requests", "requests_ratio", "tokens", "tokens_ratio")
    assert resting.height == table.height - len(expected) > 0
    assert set(resting.rows()) == {(0, 0, 0.0, 0, 0.0)}


def test_percentiles_of_tokens(sample: Result, database: Database) -> None:
    """Figure 11: one request is one sample."""
    rows = database.execute(
        """SELECT month, count(*), quantile_cont(input_tokens, [0.1, 0.25, 0.5, 0.75, 0.9]),
        quantile_cont(output_tokens, [0.1, 0.25, 0.5, 0.75, 0.9]) FROM trace WHERE whole GROUP BY month ORDER BY month"""
    ).fetchall()
    assert_rows(sample.tables["tokens_by_month"].drop("partial"), flat(rows), OF_PERIODS)


def test_cohorts_of_users(sample: Result, database: Database) -> None:
    """Figure 12: medians over the whole trace, of users with more than ten requests and both medians above one."""
    rows = database.execute(
        """WITH users AS (
            SELECT min(month) AS month, quantile_cont(input_tokens, 0.5) FILTER (whole) AS i,
                   quantile_cont(output_tokens, 0.5) FILTER (whole) AS o,
                   coalesce(count(*) > 10 AND i > 1 AND o > 1, false) AS fit
            FROM trace GROUP BY "user")
        SELECT month, count(*), count(*) FILTER (fit), quantile_cont(i, [0.1, 0.25, 0.5, 0.75, 0.9]) FILTER (fit),
               quantile_cont(o, [0.1, 0.25, 0.5, 0.75, 0.9]) FILTER (fit)
        FROM users GROUP BY month ORDER BY month"""
    ).fetchall()
    assert_rows(sample.tables["cohorts"].drop("partial"), flat(rows), OF_USERS)


def test_retention_of_cohorts(sample: Result, database: Database) -> None:
    expected = database.execute(
        """WITH cohorts AS (SELECT "user", min(month) AS cohort FROM trace GROUP BY "user"),
        active AS (SELECT cohort, month, count(*) AS n FROM trace JOIN cohorts USING ("user") GROUP BY cohort, month, "user"),
        counts AS (SELECT cohort, month, count(*) AS users, sum(n)::BIGINT AS n FROM active GROUP BY ALL)
        SELECT cohort, month, date_diff('month', cohort, month), first_value(users) OVER own, users,
               users / first_value(users) OVER own, n, n / sum(n) OVER (PARTITION BY month)
        FROM counts WINDOW own AS (PARTITION BY cohort ORDER BY month) ORDER BY cohort, month"""
    ).fetchall()
    table = sample.tables["retention"].drop("partial")
    assert table.height == 13 * 14 // 2
    assert_rows(table.filter(pl.col("users") > 0), expected)


def test_switching_of_users(sample: Result, database: Database) -> None:
    expected = database.execute(
        """SELECT month, count(*), count(*) FILTER (one <> other), count(*) FILTER (one <> other) / count(*)
        FROM moves GROUP BY month ORDER BY month"""
    ).fetchall()
    assert_rows(sample.tables["switching"].drop("partial"), expected)
    [(ratio,)] = database.execute("SELECT avg((one <> other)::INT) FROM moves").fetchall()
    assert sample.scalars["switched_ratio"] == pytest.approx(ratio, rel=EXACT)


def test_transitions_between_models(sample: Result, database: Database) -> None:
    expected = database.execute(
        """WITH ranked AS (
            SELECT earlier.place AS a, later.place AS b, earlier.name AS from_model, later.name AS to_model, one <> other AS gone
            FROM moves JOIN busiest AS earlier ON one = earlier.model JOIN busiest AS later ON other = later.model),
        counts AS (SELECT a, b, from_model, to_model, count(*) AS n, count(*) FILTER (gone) AS gone FROM ranked GROUP BY ALL)
        SELECT from_model, to_model, n, gone, (n / sum(n) OVER (PARTITION BY a))::DOUBLE FROM counts ORDER BY a, b"""
    ).fetchall()
    assert_rows(sample.tables["transitions"], expected)


def stability(values: NDArray[np.float64], reference: NDArray[np.float64]) -> float:
    """Over the ranges between the deciles of the reference, as `numpy.histogram` counts them."""
    deciles = np.unique(np.quantile(reference, np.arange(1, 10) / 10, method="inverted_cdf"))
    counts = [np.histogram(some, [0, *(deciles + 0.5), np.inf])[0] + 0.5 for some in (values, reference)]
    p, q = (count / count.sum() for count in counts)
    return float(np.sum((p - q) * np.log(p / q)))


@pytest.mark.parametrize("column", SIDES)
def test_drift_of_lengths(sample: Result, database: Database, column: str) -> None:
    months = {
        month: np.array(values, float)
        for month, *values in database.execute(
            "SELECT month, list(input_tokens), list(output_tokens) FROM trace WHERE whole GROUP BY month ORDER BY month"
        ).fetchall()
        for values in [values[SIDES.index(column)]]
    }
    table = sample.tables["drift"].filter(pl.col("column") == column)
    assert table["time"].to_list() == list(months)
    first = list(months)[1]
    for row in table.rows(named=True):
        ours, theirs = months[row["time"]], months[first]
        assert (row["requests"], row["is_reference"]) == (ours.size, row["time"] == first)
        # Lengths of 4,096 tokens and more are rounded, a decile among them.
        assert row["psi"] == pytest.approx(stability(ours, theirs), rel=1e-2, abs=1e-5)
        distance = wasserstein_distance(np.log10(ours), np.log10(theirs))
        assert row["wasserstein_log10"] == pytest.approx(distance, abs=np.log10(1 + OF_PERIODS))
        assert row["ks"] == pytest.approx(ks_2samp(ours, theirs).statistic, abs=1e-3)
        ratio = np.exp(np.log(ours).mean() - np.log(theirs).mean())
        assert row["geometric_mean_ratio"] == pytest.approx(ratio, rel=OF_PERIODS)


def test_ten_months_without_change_are_stable_and_what_shrinks_to_a_quarter_is_not(sample: Result) -> None:
    compared = sample.tables["drift"].filter(~pl.col("partial"), ~pl.col("is_reference"))
    levels = compared.group_by("column", maintain_order=True).agg("psi_level")
    found = dict(levels.iter_rows())
    assert set(found["input_tokens"]) <= {"stable", "moderate"}
    assert found["output_tokens"][-1] == "major"


@pytest.mark.parametrize("threads", [1, 3])
def test_the_sample_is_the_same_however_it_is_cut(sample: Result, threads: int) -> None:
    [again] = run(open_trace(str(SAMPLE)), [Evolution()], threads=threads)
    assert again.scalars == sample.scalars
    assert all(again.tables[name].equals(table) for name, table in sample.tables.items())
