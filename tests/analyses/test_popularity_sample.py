"""`popularity` on the sample trace: ranks, shares and fits worked out with NumPy from what DuckDB counts."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pytest

from llmtrace.analyses.popularity import Popularity
from llmtrace.engine.local import run
from llmtrace.trace import open_trace

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.result import Result

    Amounts = npt.NDArray[np.float64]

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "year"
KINDS = [(of, by) for of in ("model", "user") for by in ("requests", "tokens")]

pytestmark = [pytest.mark.oracle, pytest.mark.parametrize(("of", "by"), KINDS)]


@pytest.fixture(scope="module")
def year() -> Result:
    [result] = run(open_trace(str(SAMPLE)), [Popularity()])
    return result


@pytest.fixture
def amounts(of: str, by: str) -> Amounts:
    """The requests or tokens of every model or user that has any, most first."""
    amount = {"requests": "count(*)", "tokens": "sum(input_tokens + output_tokens) FILTER (status = 'ok')"}[by]
    query = f"""SELECT {amount} AS amount FROM '{SAMPLE}/**/*.parquet' GROUP BY "{of}" ORDER BY 1 DESC NULLS LAST"""  # noqa: S608
    return np.array([float(value) for (value,) in duckdb.execute(query).fetchall() if value is not None])


def test_concentration(year: Result, amounts: Amounts, of: str, by: str) -> None:
    [row] = year.tables["concentration"].filter(of=of, by=by).rows(named=True)
    shares = amounts / amounts.sum()
    assert (row["entities"], row["total"]) == (amounts.size, amounts.sum())
    for name, count in (
        ("top1", 1),
        ("top10", 10),
        ("top100", 100),
        ("top_1_percent", ceil(amounts.size / 100)),
        ("top_10_percent", ceil(amounts.size / 10)),
    ):
        assert row[f"{name}_ratio"] == pytest.approx(shares[:count].sum())
    for percent in (50, 90, 99):
        needed = row[f"needed_for_{percent}"]
        assert 100 * amounts[: needed - 1].sum() < percent * amounts.sum() <= 100 * amounts[:needed].sum()
    differences = np.abs(amounts[:, None] - amounts).mean()
    assert row["gini"] == pytest.approx(differences / (2 * amounts.mean()))


def test_zipf(year: Result, amounts: Amounts, of: str, by: str) -> None:
    [row] = year.tables["zipf"].filter(of=of, by=by).rows(named=True)
    last = row["last_rank"]
    if by == "requests":
        assert last == (amounts >= 10).sum()
    ranks = np.arange(1, last + 1)
    slope, _ = np.polyfit(np.log(ranks), np.log(amounts[:last]), 1, w=ranks**-0.5)
    assert row["exponent"] == pytest.approx(-slope)
    for name, some in (("head", ranks <= last**0.5), ("tail", ranks >= last**0.5)):
        slope, _ = np.polyfit(np.log(ranks[some]), np.log(amounts[:last][some]), 1, w=ranks[some] ** -0.5)
        assert row[f"{name}_exponent"] == pytest.approx(-slope)


def test_ranks(year: Result, amounts: Amounts, of: str, by: str) -> None:
    table = year.tables["rank_frequency"].filter(of=of, by=by)
    ranks = table["rank"].to_numpy()
    assert (ranks[0], ranks[-1]) == (1, amounts.size)
    assert table["ratio"].to_list() == pytest.approx((amounts / amounts.sum())[ranks - 1])
    assert table["cumulative_ratio"].to_list() == pytest.approx((amounts.cumsum() / amounts.sum())[ranks - 1])
