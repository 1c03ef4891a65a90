"""Results of `stats` made up by hand: a year on an absolute clock with every column, an hour on a relative one with few."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from llmtrace.result import Result, Scalar

if TYPE_CHECKING:
    from numpy.typing import NDArray

YEAR_START = datetime(2025, 4, 11)
DAYS = 366
DEFINITIONS = {
    "requests": "requests that arrived, failed ones included",
    "span_s": "time from the first to the last arrival, in seconds",
    "input_tokens": "prompt tokens of requests that did not fail, cached ones included",
    "peak_to_mean_requests": "requests in the busiest interval over the mean of all intervals between first and last arrival",
}
MODELS = ("deepseek-ai/DeepSeek-V3-0324-TEE", "deepseek-ai/DeepSeek-R1-0528-TEE", "MiniMaxAI/MiniMax-M2.5")


def cdf(model: str | None, column: str, median: float, spread: float) -> pl.DataFrame:
    """A lognormal's quantiles, as rows of `length_cdf`."""
    share = np.arange(101) / 100
    grid = np.linspace(-4, 4, 4001)
    weight = np.cumsum(np.exp(-(grid**2) / 2))
    value = median * np.exp(spread * np.interp(share, weight / weight[-1], grid))
    return pl.DataFrame({"model": [model] * 101, "column": [column] * 101, "cumulative_ratio": share, "value": value}).cast(
        {"model": pl.String}
    )


def cdfs(models: tuple[str | None, ...]) -> pl.DataFrame:
    shapes = {"input_tokens": (2500, 1.4), "output_tokens": (210, 1.1), "output_to_input_ratio": (0.09, 1.8)}
    return pl.concat(
        cdf(model, column, median * 1.9**place, spread * 0.9**place)
        for place, model in enumerate(models)
        for column, (median, spread) in shapes.items()
    )


def rates(time: pl.Series, requests: NDArray[np.int64], interval_s: int, **columns: pl.Series) -> pl.DataFrame:
    table = pl.DataFrame({"time": time, "requests": requests}).with_columns(
        failed_requests=(pl.col("requests") * 0.013).cast(pl.Int64), **columns
    )
    per_s = [(pl.col(name) / interval_s).alias(f"{name}_per_s") for name in ("requests", "input_tokens", "output_tokens")]
    tokens = pl.col("input_tokens") + pl.col("output_tokens")
    return table.with_columns(*per_s, tokens_per_request=tokens / (pl.col("requests") - pl.col("failed_requests")))


def hours(level: float) -> pl.DataFrame:
    weekday, hour = np.repeat(np.arange(1, 8), 24), np.tile(np.arange(24), 7)
    mean = level * (1 + 0.35 * np.sin((hour - 9) / 24 * 2 * np.pi)) * np.where(weekday > 5, 0.75, 1.0)
    frame = pl.DataFrame({"weekday": weekday, "hour": hour, "requests": (mean * 52).astype(np.int64)})
    return frame.with_columns(days=52).with_columns(requests_per_day=pl.col("requests") / 52)


def scalars(
    table: pl.DataFrame, interval_s: int, first: Scalar, last: Scalar, span_s: float, **others: Scalar
) -> dict[str, Scalar]:
    total = {
        name: int(table[name].fill_null(0).to_numpy().sum())
        for name in ("requests", "failed_requests", "input_tokens", "output_tokens")
    }
    return {
        **total,
        "first_timestamp": first,
        "last_timestamp": last,
        "span_s": span_s,
        "interval_s": interval_s,
        "requests_per_s": float(total["requests"] / span_s),
        "peak_to_mean_requests": table["requests"].to_numpy().max() / table["requests"].to_numpy().mean(),
        **others,
    }


@pytest.fixture
def year() -> Result:
    rng = np.random.default_rng(7)
    day = np.arange(DAYS)
    time = pl.Series("time", [YEAR_START + timedelta(days=int(one)) for one in day], dtype=pl.Datetime("us"))
    rise = 4e6 + 18e6 * np.exp(-(((day - 150) / 90) ** 2))
    requests = (rise * (1 + 0.08 * np.sin(day / 7 * 2 * np.pi)) * rng.lognormal(0, 0.06, DAYS)).astype(np.int64)
    length = 6500 * np.exp(-(((day - 120) / 160) ** 2)) * rng.lognormal(0, 0.05, DAYS)
    table = rates(
        time,
        requests,
        86_400,
        input_tokens=pl.Series((requests * length).astype(np.int64)),
        output_tokens=pl.Series((requests * length * 0.07 * rng.lognormal(0, 0.05, DAYS)).astype(np.int64)),
        cached_tokens=pl.Series([None] * 305 + [int(requests[one] * length[one] * 0.4) for one in day[305:]], dtype=pl.Int64),
        users=pl.Series((1500 + requests / 4000).astype(np.int64)),
        models=pl.Series((80 + 330 * day / DAYS + rng.normal(0, 6, DAYS)).astype(np.int64)),
        instances=pl.Series([None] * DAYS, dtype=pl.Int64),
    )
    share = {"chat_stream": 0.55, "chat": 0.25, "completion_stream": 0.1, "completion": 0.07, "embed": 0.02, "e2e_invoke": 0.01}
    endpoints = pl.concat(
        table.select("time", endpoint=pl.lit(name), requests=(pl.col("requests") * part).cast(pl.Int64), requests_ratio=part)
        for name, part in share.items()
    )
    first, last = datetime(2025, 4, 11, 4, 0, 0, 15295), datetime(2026, 4, 11, 19, 59, 59, 984705)
    span_s = (last - first).total_seconds()
    return Result(
        command="stats",
        parameters={"interval": "auto", "interval_s": 86_400},
        scalars=scalars(table, 86_400, first, last, span_s, cached_tokens=None, sessions=None, rate_correlation=0.62),
        tables={
            "rates": table,
            "length_cdf": cdfs((None, *MODELS)),
            "endpoints": endpoints,
            "hour_of_week": hours(700_000),
        },
        primary="rates",
        notes=("Requests and tokens move apart: their rates correlate with 0.62 only, so plan for each.",),
        provenance={
            "llmtrace": "0.1.0",
            "sources": ["/data/serving/chutes_metadata.parquet"],
            "layout": "chutes",
            "clock": "utc",
            "filters": {"since": "2025-04-11", "models": [MODELS[0], MODELS[1]], "where": "input_tokens > 0"},
            "rows_read": 6_122_413_756,
            "rows": 5_001_234_567,
            "first": "2025-04-11T04:00:00.015295Z",
            "last": "2026-04-11T19:59:59.984705Z",
        },
        definitions=DEFINITIONS,
    )


@pytest.fixture
def hour() -> Result:
    rng = np.random.default_rng(3)
    minute = np.arange(59)
    requests = rng.poisson(200 + 60 * np.sin(minute / 20), 59).astype(np.int64)
    table = rates(
        pl.Series("time", minute * 60.0),
        requests,
        60,
        input_tokens=pl.Series((requests * 12_000 * rng.lognormal(0, 0.1, 59)).astype(np.int64)),
        output_tokens=pl.Series((requests * 340 * rng.lognormal(0, 0.1, 59)).astype(np.int64)),
        **{name: pl.Series([None] * 59, dtype=pl.Int64) for name in ("cached_tokens", "users", "models", "instances")},
    ).with_columns(failed_requests=pl.lit(None, pl.Int64))
    return Result(
        command="stats",
        parameters={"interval": "auto", "interval_s": 60},
        scalars={**scalars(table, 60, 0.0, 3536.999, 3536.999), "failed_requests": None},
        tables={
            "rates": table,
            "length_cdf": cdfs((None,)),
            "endpoints": pl.DataFrame(schema={"time": pl.Float64, "endpoint": pl.String, "requests": pl.Int64}),
            "hour_of_week": hours(1).head(24),
        },
        primary="rates",
        provenance={
            "llmtrace": "0.1.0",
            "sources": ["traces/mooncake/conversation_trace.jsonl"],
            "clock": "relative",
            "filters": {},
            "rows_read": 12_031,
            "rows": 12_031,
            "first": 0.0,
            "last": 3536.999,
        },
    )
