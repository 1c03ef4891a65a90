"""How reuse times spread over users: month by month (Figure 14a of the paper) and per model (Figure 14b)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.analyses.reuse_time.eligible import ENOUGH_REQUESTS
from llmtrace.summaries import months, returns, trails

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llmtrace.analyses.base import State
    from llmtrace.analyses.reuse_time.eligible import Eligible
    from llmtrace.summaries.profiles import Floats
    from llmtrace.summaries.span import Span
    from llmtrace.summaries.trails import Limits

__all__ = ["TOP_MODELS", "by_model", "by_month"]

TOP_MODELS = 3
"""How many models stand out, as in the paper."""
COMPLETE = 0.95
"""A month of which the trace covers less is partial."""

_SECOND_US = 1e6
_BOX = {"min_s": 0.0, "p5_s": 0.05, "p25_s": 0.25, "p50_s": 0.5, "p75_s": 0.75, "p95_s": 0.95, "max_s": 1.0}
_BY_MODEL = {"model": pl.String(), "requests": pl.Int64(), "users": pl.Int64(), **dict.fromkeys(_BOX, pl.Float64())}


def by_month(state: State, span: Span, limits: Limits) -> pl.DataFrame:
    """One row per month with an eligible user: per percentile of a user's gaps its median over users."""
    busy = state["visitors"].filter(pl.col("requests") >= ENOUGH_REQUESTS)
    counted = months.over(state, limits).join(busy, on="key", how="semi")
    medians = ((pl.col(f"p{percent}").median() / _SECOND_US).alias(f"p{percent}_s") for percent in months.PERCENTS)
    table = counted.group_by("month").agg(pl.len().cast(pl.Int64).alias("users"), *medians).sort("month")
    ratios = pl.Series("span_ratio", [_covered(month, span) for month in table["month"]], dtype=pl.Float64)
    return table.with_columns(ratios, (ratios < COMPLETE).alias("partial"))


def by_model(state: State, eligible: Eligible, highlight: Sequence[str], limits: Limits) -> pl.DataFrame:
    """One row per highlighted model: how the median gap of its users spreads over them."""
    if state["models"].is_empty():
        return pl.DataFrame(schema=_BY_MODEL)
    inner = state["inner"].with_row_index("place").join(state["models"], on="key")
    models = inner.select(pl.col("name").alias("model"), "requests", "place").sort(
        ["requests", "model"], descending=[True, False]
    )
    named = pl.DataFrame({"model": highlight}, {"model": pl.String()}).unique(maintain_order=True)
    chosen = named.join(models, on="model", how="left", maintain_order="left") if highlight else models.head(TOP_MODELS)
    medians = _medians(state, eligible, [place for place in chosen["place"] if place is not None], limits)
    nobody = np.empty(0)
    rows = [(model, requests or 0, *_box(medians.get(place, nobody))) for model, requests, place in chosen.iter_rows()]
    return pl.DataFrame(rows, _BY_MODEL, orient="row")


def _medians(state: State, eligible: Eligible, places: Sequence[int], limits: Limits) -> dict[int | None, Floats]:
    """The median positive gap of every eligible key of some models, in seconds, by the place of the model."""
    inner = state["pairs"]["inner"]
    wanted = eligible.keys & inner.is_in(places).to_numpy()
    medians = trails.percentiles(returns.trails_of(state), wanted, (50,), limits.limit)[:, 0] / _SECOND_US
    owners = inner.filter(pl.Series(wanted)).to_numpy()
    return {place: medians[owners == place] for place in places}


def _box(values: Floats) -> tuple[float | None, ...]:
    if not values.size:
        return 0, *(None for _ in _BOX)
    return values.size, *np.quantile(values, list(_BOX.values())).tolist()


def _covered(month: datetime, span: Span) -> float:
    """The share of a month that lies between the first and the last arrival."""
    following = (month.replace(day=1) + timedelta(days=32)).replace(day=1)
    first, last = span.first or month, span.last or month
    return max((min(last, following) - max(first, month)) / (following - month), 0.0)
