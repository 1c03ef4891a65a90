"""The page on the generator tells the numbers of the committed sample."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def told() -> Mapping[str, str]:
    """Fact to the sample's number, as the page has them."""
    return dict(ROW.findall((ROOT / "docs" / "generate.md").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def sample() -> pl.DataFrame:
    return pl.read_parquet(ROOT / "sample_traces" / "year" / "**" / "*.parquet", hive_partitioning=False).sort("request_id")


@pytest.fixture(scope="module")
def served(sample: pl.DataFrame) -> pl.DataFrame:
    return sample.filter(pl.col("status") == "ok")


def monthly(column: str, served: pl.DataFrame) -> list[float]:
    by_month = served.group_by(pl.col("timestamp").dt.truncate("1mo")).agg(pl.col(column).median()).sort("timestamp")
    return by_month[column].to_list()


def model_gaps(sample: pl.DataFrame) -> list[np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Gaps of every model with at least a hundred of them."""
    by_model = sample.partition_by("model")
    return [np.diff(part["timestamp"].dt.epoch("us").to_numpy()) / 1e6 for part in by_model if part.height > 100]


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def test_gaps(told: Mapping[str, str], sample: pl.DataFrame) -> None:
    gaps = sample.select(pl.col("timestamp").diff().over("user", "model").dt.total_microseconds()).to_series().drop_nulls()
    shares = [percent((gaps.to_numpy() < limit).mean()) for limit in (100_000, 10_000_000, 900_000_000)]
    assert told["gaps of a user to a model below 0.1 s, 10 s, 15 min"] == ", ".join(shares)


def test_burstiness(told: Mapping[str, str], sample: pl.DataFrame) -> None:
    every = model_gaps(sample)
    bursty = np.mean([gaps.std(ddof=1) > gaps.mean() for gaps in every])
    positive = np.mean([np.corrcoef(gaps[:-1], gaps[1:])[0, 1] > 0 for gaps in every])
    assert told["models with a CV of gaps above 1"] == percent(float(bursty))
    assert told["models with a positive lag-1 autocorrelation of gaps"] == percent(float(positive))


def test_lengths(told: Mapping[str, str], served: pl.DataFrame) -> None:
    inputs, outputs = monthly("input_tokens", served), monthly("output_tokens", served)
    assert told["monthly median of input tokens"] == f"{min(inputs):,.0f} to {max(inputs):,.0f}"
    assert told["monthly median of output tokens, first and last"] == f"{outputs[0]:.0f}, {outputs[-1]:.0f}"


def test_models(told: Mapping[str, str], sample: pl.DataFrame) -> None:
    days = sample.group_by(pl.col("timestamp").dt.truncate("1d")).agg(pl.col("model").n_unique()).sort("timestamp")["model"]
    ends = [f"{part.to_numpy().mean():.0f}" for part in (days.head(30), days.tail(30))]
    assert told["models active a day, mean of the first and the last 30 days"] == ", ".join(ends)
    tops = sample.group_by(pl.col("timestamp").dt.truncate("1mo")).agg(pl.col("model").mode().sort().first())
    assert told["models that are the top one of a month"] == str(tops["model"].n_unique())


def test_concentration(told: Mapping[str, str], sample: pl.DataFrame) -> None:
    counts = np.sort(sample["user"].value_counts()["count"].to_numpy())[::-1]
    assert told["requests of the busiest user, of the busiest tenth"] == ", ".join(
        percent(counts[:top].sum() / counts.sum()) for top in (1, len(counts) // 10)
    )


def test_hits(told: Mapping[str, str], served: pl.DataFrame) -> None:
    ratio = served.select(pl.col("cached_tokens") / pl.col("input_tokens")).to_series().drop_nulls().to_numpy()
    assert told["requests with a hit ratio of 0, above 0.9"] == f"{percent((ratio == 0).mean())}, {percent((ratio > 0.9).mean())}"


def test_structural_reuse(told: Mapping[str, str], served: pl.DataFrame) -> None:
    whole = pl.col("input_tokens") + pl.col("output_tokens")
    reuse = served.select(whole.shift(1).over("session", order_by="turn").sum() / pl.col("input_tokens").sum()).item()
    assert told["input that is the session's earlier text (structural reuse)"] == percent(reuse)


def test_seasons(told: Mapping[str, str], sample: pl.DataFrame) -> None:
    hours = np.bincount(sample["timestamp"].dt.hour().to_numpy(), minlength=24)
    assert told["busiest and quietest hour, UTC"] == f"{hours.argmax()}, {hours.argmin()}"
