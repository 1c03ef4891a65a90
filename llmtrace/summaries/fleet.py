"""How the load of each minute is spread over the instances that are active in it.

An instance is active in a minute of the clock in which a request begins on it. Its load there is the tokens of these requests,
up to `MOST_TOKENS`: so every sum over instances is exact, squares too, and does not depend on their order. Of a part only the
first and the last minute can go on beyond it. Two tables hold a part:

    minutes         closed minutes: `time` (start, ascending), `requests`, `instances`, `tokens` (of all instances), `most` (of
                    the one with most), `squares` (the sum over instances of the squares of their tokens)
    open_minutes    a row per open minute and instance, in order of first requests: `minute_us`, `key`, `requests`, `tokens`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.summaries.frames import frame_of
from llmtrace.summaries.intervals import Interval
from llmtrace.summaries.within import added, runs_of, within

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llmtrace.summaries.groups import Integers, Keys

    Tables = Mapping[str, pl.DataFrame]

__all__ = ["MINUTE", "MOST_TOKENS", "SCHEMAS", "balances", "closed", "combine", "summarise"]

MINUTE = Interval.parse("1m")
MOST_TOKENS = (1 << 32) - 1
"""Tokens of a request, and of an instance in a minute, are taken as no more than this."""

SCHEMAS: Mapping[str, Mapping[str, pl.DataType]] = {
    "minutes": {
        "time": pl.Datetime("us"),
        "requests": pl.Int64(),
        "instances": pl.Int64(),
        "tokens": pl.Int64(),
        "most": pl.Int64(),
        "squares": pl.Int128(),
    },
    "open_minutes": {"minute_us": pl.Int64(), "key": pl.UInt64(), "requests": pl.Int64(), "tokens": pl.Int64()},
}
"""The columns of each table of a state."""

_HALF = np.uint64(32)
_LOWER = np.uint64((1 << 32) - 1)


def summarise(times_us: Integers, instances: Keys, tokens: Integers) -> dict[str, pl.DataFrame]:
    """The two tables of a part.

    Args:
        times_us: arrivals, ascending.
        instances: the key of the instance of each request, all known.
        tokens: of each request, from 0 to `MOST_TOKENS`.
    """
    borders, starts = MINUTE.runs(times_us)
    rows = _gathered(instances, np.ones_like(tokens), tokens, borders, starts)
    return _split(rows)


def combine(states: Sequence[Tables]) -> dict[str, pl.DataFrame]:
    """The two tables of all parts: minutes that meet at a border are united, and those now between others are closed."""
    rows = pl.concat([state["open_minutes"] for state in states])
    minutes, key, requests, tokens = (rows[name].to_numpy() for name in SCHEMAS["open_minutes"])
    borders = runs_of(minutes)
    found = _split(_gathered(key, requests, tokens, borders, minutes[borders[:-1]]))
    together = pl.concat([*(state["minutes"] for state in states), found["minutes"]]).sort("time")
    return {**found, "minutes": together}


def closed(state: Tables) -> pl.DataFrame:
    """`minutes` with those that are still open, ascending."""
    rows = state["open_minutes"]
    return pl.concat([state["minutes"], _closed(rows)]).sort("time")


def balances() -> dict[str, pl.Expr]:
    """How evenly the tokens of `minutes` are spread over active instances; null where there are none.

    `max_mean` is the tokens of the instance with most over their mean, `jain` Jain's index (Σx)² / (n·Σx²), and `cv` the standard
    deviation over the mean, of the population.

    >>> minute = pl.DataFrame({"instances": [2], "tokens": [4], "most": [3], "squares": [10]}).cast({"squares": pl.Int128})
    >>> minute.select(**balances()).rows()
    [(1.5, 0.8, 0.5)]
    """
    tokens = pl.col("tokens").cast(pl.Int128)
    spread, whole = pl.col("instances") * pl.col("squares"), tokens * tokens
    some = pl.when(pl.col("tokens") > 0)
    return {
        "max_mean": some.then(pl.col("most") * pl.col("instances") / pl.col("tokens")),
        "jain": some.then(whole.cast(pl.Float64) / spread.cast(pl.Float64)),
        "cv": some.then((spread - whole).cast(pl.Float64).sqrt() / pl.col("tokens")),
    }


def _gathered(key: Keys, requests: Integers, tokens: Integers, borders: Integers, starts: Integers) -> pl.DataFrame:
    """A row per minute and instance, in order of first requests, from rows in order of time."""
    found = within(key, borders)
    groups = found.firsts.size
    minutes = np.repeat(starts, np.diff(found.borders))
    columns = minutes, key[found.firsts], added(found.ids, requests, groups), added(found.ids, tokens, groups)
    columns = *columns[:-1], np.minimum(columns[-1], MOST_TOKENS)
    return frame_of(dict(zip(SCHEMAS["open_minutes"], columns, strict=True)))


def _split(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The minutes between the first and the last one closed, these two open."""
    borders = runs_of(rows["minute_us"].to_numpy())
    if borders.size <= 3:  # noqa: PLR2004
        return {"minutes": pl.DataFrame(schema=SCHEMAS["minutes"]), "open_minutes": rows}
    first, last = int(borders[1]), int(borders[-2])
    return {"minutes": _closed(rows[first:last]), "open_minutes": pl.concat([rows[:first], rows[last:]])}


def _closed(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of `minutes` from those of whole minutes."""
    minutes, requests, tokens = (rows[name].to_numpy() for name in ("minute_us", "requests", "tokens"))
    starts = runs_of(minutes)[:-1]
    if not starts.size:
        return pl.DataFrame(schema=SCHEMAS["minutes"])
    squares = tokens.astype(np.uint64) ** 2
    high, low = np.add.reduceat(squares >> _HALF, starts), np.add.reduceat(squares & _LOWER, starts)
    found = frame_of(
        {
            "time": minutes[starts],
            "requests": np.add.reduceat(requests, starts),
            "instances": np.diff(np.append(starts, minutes.size)),
            "tokens": np.add.reduceat(tokens, starts),
            "most": np.maximum.reduceat(tokens, starts),
            "high": high,
            "low": low,
        }
    )
    wide = pl.col("high").cast(pl.Int128) * (1 << 32) + pl.col("low").cast(pl.Int128)
    return found.with_columns(wide.alias("squares")).select(*SCHEMAS["minutes"]).cast(pl.Schema(SCHEMAS["minutes"]))
