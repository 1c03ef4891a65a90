"""The load of instances by minute and by hour (Figure 17 a to c of the paper), over the trace, and the busiest day of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.summaries import fleet
from llmtrace.summaries.intervals import DAY, HOUR
from llmtrace.summaries.sums import narrowed
from llmtrace.summaries.within import runs_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from llmtrace.analyses.base import State
    from llmtrace.result import Scalar

    Floats = npt.NDArray[np.float64]

__all__ = [
    "MOST_HOURS",
    "MOST_INSTANCES",
    "MOST_ROWS",
    "busiest_day",
    "by_hour",
    "by_minute",
    "instances",
    "limited",
    "measured",
    "scalars",
]

MOST_ROWS = 10_080
"""A table by minute or by window with more rows, the minutes of a week, is given on request only."""
MOST_HOURS = 100_000
"""Where more hours lie between the first and the last one, only those with requests have rows."""
MOST_INSTANCES = 1_000
"""How many instances the table of them has."""

_BALANCES = ("max_mean", "jain", "cv")
_NAMES = ("imbalance_max_mean", "jain", "cv")


def measured(minutes: pl.DataFrame) -> pl.DataFrame:
    """Minutes with requests, and how evenly their tokens are spread; null in those that are too thin to say.

    Args:
        minutes: the table of `fleet`, all of them closed.
    """
    valid = (pl.col("instances") >= fleet.LEAST_INSTANCES) & (pl.col("requests") >= fleet.LEAST_REQUESTS)
    return minutes.select(
        "time", "requests", "instances", "tokens", **{name: pl.when(valid).then(how) for name, how in fleet.balances().items()}
    )


def by_minute(minutes: pl.DataFrame, *, all_rows: bool) -> pl.DataFrame:
    """The table `load_by_minute`."""
    return limited(minutes, all_rows=all_rows)


def limited(table: pl.DataFrame, *, all_rows: bool) -> pl.DataFrame:
    """The table without its rows where they are too many, unless they are asked for."""
    return table if all_rows or table.height <= MOST_ROWS else table.clear()


def by_hour(minutes: pl.DataFrame) -> pl.DataFrame:
    """The table `load`: a row per clock hour from the first to the last one, or if these are too many, per hour with requests."""
    hours = minutes["time"].to_physical().to_numpy() // HOUR.width_us * HOUR.width_us
    borders = runs_of(hours)
    starts = borders[:-1]
    valid = minutes["max_mean"].is_not_null().to_numpy()
    number = _summed(valid.astype(np.int64), starts)
    means = {name: _means(minutes[name], number, starts) for name in _BALANCES}
    requests, tokens = (_summed(minutes[name].to_numpy(), starts) for name in ("requests", "tokens"))
    found = pl.DataFrame(
        {
            "time": pl.Series(hours[starts], dtype=pl.Int64).cast(pl.Datetime("us")),
            "requests": requests,
            "instances": _medians(minutes["instances"].to_numpy(), borders),
            "max_mean": means["max_mean"],
            "jain": means["jain"],
            "cv": means["cv"],
            "tokens": tokens,
            "tokens_per_s": tokens / HOUR.seconds,
            "minutes": np.diff(borders),
            "valid_minutes": number,
        }
    )
    every = _hours(found["time"])
    counts = ("requests", "tokens", "tokens_per_s", "minutes", "valid_minutes")
    return every.join(found, on="time", how="left", maintain_order="left").with_columns(pl.col(counts).fill_null(0))


def _hours(times: pl.Series) -> pl.DataFrame:
    """All clock hours between some, or if they are too many only these."""
    there = times.to_physical().to_numpy()
    if not there.size or (there[-1] - there[0]) // HOUR.width_us >= MOST_HOURS:
        return times.to_frame()
    return pl.DataFrame({"time": np.arange(there[0], there[-1] + 1, HOUR.width_us)}).cast(pl.Datetime("us"))


def instances(state: State) -> pl.DataFrame:
    """The table of the instances with most tokens; ties by requests, then by name."""
    total = state["instances"]["tokens"].sum()
    ratio = pl.col("tokens").cast(pl.Float64) / total if total else pl.lit(None, pl.Float64)
    named = state["instances"].join(state["instance_names"].rename({"name": "instance"}), on="key")
    ordered = named.sort("tokens", "requests", "instance", descending=[True, True, False]).head(MOST_INSTANCES)
    return narrowed(ordered.select("instance", "requests", "tokens", ratio.alias("tokens_ratio")))


def scalars(counts: Mapping[str, int], minutes: pl.DataFrame, totals: pl.DataFrame) -> dict[str, Scalar]:
    """Counts, and how even the load is by minute and over the trace; None is "not known".

    Args:
        counts: of requests.
        minutes: as `measured` gives them.
        totals: requests and tokens of each instance over the trace.
    """
    day = busiest_day(minutes)
    active = minutes["instances"].to_numpy()
    return {
        "requests": counts["requests"],
        "failed_requests": counts["failed"] if counts["known_status"] else None,
        "placed_requests": counts["placed"],
        "instances": totals.height,
        "minutes": minutes.height,
        "valid_minutes": int(minutes["max_mean"].is_not_null().sum()),
        "active_instances_p50": float(np.median(active)) if active.size else None,
        "active_instances_max": int(active.max()) if active.size else None,
        **{name: _mean(minutes[column]) for name, column in zip(_NAMES, _BALANCES, strict=True)},
        **{f"total_{name}": value for name, value in zip(_NAMES, _totals(totals), strict=True)},
        "busiest_day_time": day[0] if day else None,
        "busiest_day_instances": day[1] if day else None,
    }


def busiest_day(minutes: pl.DataFrame) -> tuple[datetime, float] | None:
    """The 24 hours in which the mean of active instances is highest, minutes without requests as 0: their start, and the mean.

    They lie between the first and the last minute with requests; of several the first. A shorter trace has only itself.
    """
    if minutes.is_empty():
        return None
    step = fleet.MINUTE.width_us
    places = minutes["time"].to_physical().to_numpy() // step
    length = min(DAY.width_us // step, int(places[-1] - places[0]) + 1)
    before = np.append(0, np.cumsum(minutes["instances"].to_numpy()))
    # The fullest window is the first there is, or ends with a minute that has requests: else one that ends earlier is as full.
    ends = np.append(places[0] + length - 1, places[places >= places[0] + length - 1])
    inside = before[np.searchsorted(places, ends, "right")] - before[np.searchsorted(places, ends - length, "right")]
    best = int(np.argmax(inside))
    start = datetime(1970, 1, 1) + timedelta(microseconds=int(ends[best] - length + 1) * step)
    return start, float(inside[best] / length)


def _totals(totals: pl.DataFrame) -> tuple[float | None, ...]:
    """The same balances of the tokens of instances over the trace."""
    tokens = [int(value) for value in totals["tokens"]]
    whole, squares, number = sum(tokens), sum(value * value for value in tokens), len(tokens)
    if not whole:
        return None, None, None
    return max(tokens) * number / whole, whole * whole / (number * squares), (number * squares / (whole * whole) - 1) ** 0.5


def _mean(values: pl.Series) -> float | None:
    known = values.drop_nulls().to_numpy()
    return float(known.mean()) if known.size else None


def _summed(values: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    sums: npt.NDArray[np.int64] = np.add.reduceat(values, starts) if starts.size else values
    return sums


def _means(values: pl.Series, number: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]) -> pl.Series:
    """The mean over the known values from each start on; null where there are none."""
    known = values.fill_null(0.0).to_numpy()
    sums = np.add.reduceat(known, starts) if starts.size else known
    return pl.Series(sums / np.maximum(number, 1)).set(pl.Series(number == 0), None)


def _medians(values: npt.NDArray[np.int64], borders: npt.NDArray[np.int64]) -> Floats:
    """The median of the values between each border and the next."""
    runs = pl.DataFrame({"run": np.repeat(np.arange(borders.size - 1), np.diff(borders)), "value": values})
    found: Floats = runs.group_by("run", maintain_order=True).agg(pl.col("value").median())["value"].cast(pl.Float64).to_numpy()
    return found
