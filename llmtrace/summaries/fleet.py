"""How the load of each minute is spread over the instances that are active in it, over all of them and in each pool.

An instance is active in a minute of the clock in which a request begins on it. Its load there is the tokens of these requests,
up to `MOST_TOKENS`: so every sum over instances is exact, squares too, and does not depend on their order. A pool is what serves
the same requests: the instances of a model. Only the first and the last minute of a part can go on beyond it. Three tables hold
a part:

    minutes         closed minutes: `time` (start, ascending), `requests`, `instances`, `tokens` (of all instances), `most` (of
                    the one with most), `squares` (the sum over instances of the squares of their tokens)
    pools           closed minutes by pool: `pool` (ascending), `minutes`, `requests`, `instances`, `tokens`, `valid_minutes`, and
                    over these the sums of `balances` in steps of `STEPS` to one
    open_minutes    a row per open minute, pool and instance, in order of first requests: `minute_us`, `pool`, `key`,
                    `requests`, `tokens`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.summaries.frames import frame_of
from llmtrace.summaries.intervals import Interval
from llmtrace.summaries.within import added, counted, greatest, mixed, runs_of, within

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llmtrace.summaries.groups import Ids, Integers, Keys

    Tables = Mapping[str, pl.DataFrame]

__all__ = [
    "LEAST_INSTANCES",
    "LEAST_REQUESTS",
    "MINUTE",
    "MOST_TOKENS",
    "SCHEMAS",
    "STEPS",
    "balances",
    "closed",
    "combine",
    "summarise",
]

MINUTE = Interval.parse("1m")
MOST_TOKENS = (1 << 32) - 1
"""Tokens of a request, and of an instance in a minute, are taken as no more than this."""
LEAST_INSTANCES, LEAST_REQUESTS = 2, 10
"""What a minute needs to be valid, as in the paper: with fewer there is no balance to speak of. It needs tokens, too."""
STEPS = 1 << 20

_BALANCES = ("max_mean", "jain", "cv")
SCHEMAS: Mapping[str, Mapping[str, pl.DataType]] = {
    "minutes": {
        "time": pl.Datetime("us"),
        **dict.fromkeys(("requests", "instances", "tokens", "most"), pl.Int64()),
        "squares": pl.Int128(),
    },
    "pools": {
        "pool": pl.UInt64(),
        **dict.fromkeys(("minutes", "requests", "instances", "valid_minutes"), pl.Int64()),
        **dict.fromkeys(("tokens", *_BALANCES), pl.Int128()),
    },
    "open_minutes": {
        "minute_us": pl.Int64(),
        "pool": pl.UInt64(),
        "key": pl.UInt64(),
        "requests": pl.Int64(),
        "tokens": pl.Int64(),
    },
}
"""The columns of each table of a state."""

_EDGES = 2
_HALF = np.uint64(32)
_LOWER = np.uint64((1 << 32) - 1)


def summarise(times_us: Integers, pools: Keys, instances: Keys, tokens: Integers) -> dict[str, pl.DataFrame]:
    """The three tables of a part.

    Args:
        times_us: arrivals, ascending.
        pools: the key of the pool of each request.
        instances: the key of its instance, known.
        tokens: its tokens, from 0 to `MOST_TOKENS`.
    """
    borders, starts = MINUTE.runs(times_us)
    return _split(_gathered(pools, instances, np.ones_like(tokens), tokens, borders, starts))


def combine(states: Sequence[Tables]) -> dict[str, pl.DataFrame]:
    """The three tables of all parts: minutes that meet at a border are united, and those now between others are closed."""
    rows = pl.concat([state["open_minutes"] for state in states]).rechunk()
    minutes, pools, instances, requests, tokens = (rows[name].to_numpy() for name in SCHEMAS["open_minutes"])
    borders = runs_of(minutes)
    found = _split(_gathered(pools, instances, requests, tokens, borders, minutes[borders[:-1]]))
    return {**_together([*states, found]), "open_minutes": found["open_minutes"]}


def closed(state: Tables) -> dict[str, pl.DataFrame]:
    """`minutes` and `pools` with the minutes that are still open."""
    return _together([state, _closed(state["open_minutes"])])


def balances() -> dict[str, pl.Expr]:
    """How evenly the tokens of rows as those of `minutes` are spread over active instances; null where there are none.

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


def _together(states: Sequence[Tables]) -> dict[str, pl.DataFrame]:
    return {
        "minutes": pl.concat([state["minutes"] for state in states]).sort("time"),
        "pools": pl.concat([state["pools"] for state in states]).group_by("pool").sum().sort("pool"),
    }


def _gathered(
    pools: Keys, instances: Keys, requests: Integers, tokens: Integers, borders: Integers, starts: Integers
) -> pl.DataFrame:
    """A row per minute, pool and instance, in order of first requests, from rows in order of time."""
    found = within(mixed(instances, pools), borders)
    groups = found.firsts.size
    columns = {
        "minute_us": np.repeat(starts, np.diff(found.borders)),
        "pool": pools[found.firsts],
        "key": instances[found.firsts],
        "requests": added(found.ids, requests, groups),
        "tokens": np.minimum(added(found.ids, tokens, groups), MOST_TOKENS),
    }
    return frame_of(columns)


def _split(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The minutes between the first and the last one closed, these two open."""
    borders = runs_of(rows["minute_us"].to_numpy())
    first, last = (int(borders[1]), int(borders[-2])) if borders.size > _EDGES + 1 else (rows.height, rows.height)
    return {**_closed(rows[first:last]), "open_minutes": pl.concat([rows[:first], rows[last:]])}


def _closed(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """`minutes` and `pools` from the rows of whole minutes."""
    minutes, pools, instances, requests, tokens = (rows[name].to_numpy() for name in SCHEMAS["open_minutes"])
    borders = runs_of(minutes)
    if rows.is_empty():
        return {name: pl.DataFrame(schema=SCHEMAS[name]) for name in ("minutes", "pools")}
    cells = within(pools, borders)
    by_pool = _spread(cells.ids, cells.firsts.size, requests, tokens)
    if (cells.borders[-1] != borders.size - 1) and (whole := within(instances, borders)).firsts.size < rows.height:
        # Some instance is in several pools of a minute.
        requests, tokens = (added(whole.ids, values, whole.firsts.size) for values in (requests, tokens))
        tokens, borders = np.minimum(tokens, MOST_TOKENS), whole.borders
    starts = minutes[runs_of(minutes)[:-1]]
    places = np.repeat(np.arange(starts.size, dtype=np.uint32), np.diff(borders))
    found = _spread(places, starts.size, requests, tokens).with_columns(pl.Series("time", starts).cast(pl.Datetime("us")))
    return {"minutes": found.select(*SCHEMAS["minutes"]), "pools": _pooled(by_pool, pools[cells.firsts])}


def _spread(places: Ids, count: int, requests: Integers, tokens: Integers) -> pl.DataFrame:
    """The columns of `minutes` but the time, from the requests and tokens of instances, for each place."""
    squares = tokens.astype(np.uint64) ** 2
    halves = ((squares >> _HALF).astype(np.int64), (squares & _LOWER).astype(np.int64))
    high, low = (added(places, half, count) for half in halves)
    found = frame_of(
        {
            "requests": added(places, requests, count),
            "instances": counted(places, count),
            "tokens": added(places, tokens, count),
            "most": greatest(places, tokens, count),
            "high": high,
            "low": low,
        }
    )
    wide = pl.col("high").cast(pl.Int128) * (1 << 32) + pl.col("low").cast(pl.Int128)
    return found.with_columns(wide.alias("squares"))


def _pooled(cells: pl.DataFrame, pools: Keys) -> pl.DataFrame:
    """The rows of `pools` from those of every minute and pool."""
    counts = {name: cells[name].to_numpy() for name in ("requests", "instances", "tokens")}
    valid = (counts["instances"] >= LEAST_INSTANCES) & (counts["requests"] >= LEAST_REQUESTS) & (counts["tokens"] > 0)
    # Most are not, and are left out of the costly part.
    there = np.flatnonzero(valid)
    steps = cells[there].select(**{name: (how * STEPS).round().cast(pl.Int64) for name, how in balances().items()})
    found = within(pools, np.array([0, pools.size]))
    groups = found.firsts.size
    columns = {"pool": pools[found.firsts], "minutes": counted(found.ids, groups)}
    columns |= {name: added(found.ids, values, groups) for name, values in counts.items()}
    columns |= {"valid_minutes": added(found.ids, valid.astype(np.int64), groups)}
    columns |= {name: added(found.ids[there], steps[name].to_numpy(), groups) for name in _BALANCES}
    return frame_of(columns).select(*SCHEMAS["pools"]).cast(pl.Schema(SCHEMAS["pools"])).sort("pool")
