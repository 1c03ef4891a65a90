"""The gaps of a key: how many, how long and how unequal they are, and how each depends on the one before it.

All sums are over integers, so that cutting changes no bit of them. Two sequences are told apart: that of all gaps, ties (gaps of
length zero) included, and that of the positive gaps, which is the first without its ties.

Columns, one row per known key, ascending:

    key
    requests
    first_us, last_us                       the first and the last arrival; their difference is the sum of the gaps
    ties
    first_gap_us, last_gap_us               null with fewer than two requests
    first_positive_us, last_positive_us     the first and the last positive gap; null where there is none
    squares, products                       Σ gap² and Σ gap · next gap, in microseconds squared
    logs, log_squares, log_products         Σ l, Σ l² and Σ l · next l over the positive gaps, with l the fixed logarithm of a
                                            gap in microseconds (see `fixed`)
    pairs, counts                           the binned pairs of consecutive gaps (see `pairs`)
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries import cells, groups, moments, pairs
from llmtrace.summaries.fixed import added, fixed_log, fixed_logs
from llmtrace.summaries.gaps import align
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.summary import Summary
from llmtrace.summaries.sums import wide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.groups import Integers

    Wide = npt.NDArray[np.uint64]

__all__ = ["WHOLE", "combine", "describe", "summary"]

WHOLE = 1
"""The key of all requests together."""

_EDGES: Mapping[str, pl.DataType] = {
    "key": pl.UInt64(),
    "requests": pl.Int64(),
    "first_us": pl.Int64(),
    "last_us": pl.Int64(),
    "ties": pl.Int64(),
    "first_gap_us": pl.Int64(),
    "last_gap_us": pl.Int64(),
    "first_positive_us": pl.Int64(),
    "last_positive_us": pl.Int64(),
    "logs": pl.Int128(),
}
_SQUARES = ("squares", "products", "log_squares", "log_products")


def summary(by: str | None = None, *, bits: int) -> Summary:
    """Describe the gaps of each known key of a part that is sorted by time.

    Args:
        by: a column of keys; without it all requests are those of one key, `WHOLE`.
        bits: significant bits of the buckets that pairs are counted in, 1 to 7.
    """
    schema = {**_EDGES, **dict.fromkeys(_SQUARES, pl.Int128()), "pairs": pl.List(pl.UInt32()), "counts": pl.List(pl.UInt32())}
    needs = {"timestamp": pl.col("timestamp").to_physical(), **({} if by is None else {by: pl.col(by)})}
    return Summary(needs, schema, partial(_summarise, by=by, bits=bits))


def combine(frames: Sequence[pl.DataFrame], *, bits: int) -> pl.DataFrame:
    """The summary of all parts, which are neighbours in order of time and were made with the same `bits`."""
    return reduce(partial(_merge, bits=bits), frames)


def describe(frame: pl.DataFrame, *, bits: int) -> pl.DataFrame:
    """What a summary says about the gaps of each key.

    Returns:
        In the order of the rows: `key`, `requests`, `gaps`, `ties`, `mean_gap_s`, `std_gap_s` (sample), `cv`, `burstiness`,
        `lag1_pearson`, `lag1_log_pearson` (of positive gaps), `lag1_spearman`, `lag1_spearman_positive` (of positive gaps), and
        how far the last two may be off (`..._bound`). Null is what so few gaps do not tell.
    """
    gaps = pl.col("requests") - 1
    total = pl.col("last_us") - pl.col("first_us")
    mean_s, std_s = total / gaps / 1e6, moments.deviation(gaps, total, pl.col("squares")) / 1e6
    found = cells.read(frame, "pairs")
    ranks = {
        "lag1_spearman": pairs.spearman(found, bits, pairs.ALL_GAPS),
        "lag1_spearman_positive": pairs.spearman(found, bits, pairs.POSITIVE_GAPS),
    }
    return frame.select(
        "key",
        "requests",
        gaps.alias("gaps"),
        "ties",
        pl.when(gaps > 0).then(mean_s).alias("mean_gap_s"),
        std_s.alias("std_gap_s"),
        pl.when(total > 0).then(std_s / mean_s).alias("cv"),
        pl.when(total > 0).then((std_s - mean_s) / (std_s + mean_s)).alias("burstiness"),
        moments.correlation(_lagged_gaps(gaps, total)).alias("lag1_pearson"),
        moments.correlation(_lagged_logs(frame)).alias("lag1_log_pearson"),
        *(pl.Series(name, values[1]).fill_nan(None) for name, values in ranks.items()),
        *(pl.Series(f"{name}_bound", values[2]).fill_nan(None) for name, values in ranks.items()),
    )


def _lagged_gaps(gaps: pl.Expr, total: pl.Expr) -> moments.Sums:
    """Pairs of a gap and the next: all but the last gap, and all but the first."""
    first, last = (pl.col(name).cast(pl.Int128) for name in ("first_gap_us", "last_gap_us"))
    squares = pl.col("squares")
    return moments.Sums(gaps - 1, total - last, squares - last * last, total - first, squares - first * first, pl.col("products"))


def _lagged_logs(frame: pl.DataFrame) -> moments.Sums:
    first, last = (
        pl.lit(pl.Series(fixed_logs(*cells.frozen(frame[name].fill_null(0).to_numpy())))).cast(pl.Int128)
        for name in ("first_positive_us", "last_positive_us")
    )
    logs, squares = pl.col("logs"), pl.col("log_squares")
    positive = pl.col("requests") - 1 - pl.col("ties")
    return moments.Sums(
        positive - 1, logs - last, squares - last * last, logs - first, squares - first * first, pl.col("log_products")
    )


def _summarise(frame: pl.DataFrame, *, by: str | None, bits: int) -> pl.DataFrame:
    keys, times, offsets, order = _by_key(frame, by)
    edges, sums, high, low = _walk(*cells.frozen(times, offsets, order))
    requests = offsets[order + 1] - offsets[order]
    columns = [keys, pl.Series(requests), *(pl.Series(column) for column in edges), pl.Series(sums)]
    frame = pl.DataFrame(dict(zip(_EDGES, columns, strict=True)), schema_overrides=_EDGES)
    missing = (pl.when(pl.col(name) >= 0).then(name) for name in _EDGES if name.endswith(("_gap_us", "_positive_us")))
    squares = [wide(high[place].view(np.int64), low[place]).alias(name) for place, name in enumerate(_SQUARES)]
    return frame.with_columns(*missing, *squares, *cells.lists(pairs.tally(times, offsets, order, bits), "pairs"))


def _by_key(frame: pl.DataFrame, by: str | None) -> tuple[pl.Series, Integers, Integers, Integers]:
    """The known keys, ascending; arrivals key by key, and where those of each begin; the numbers of the keys in that order."""
    arrivals = frame["timestamp"].to_numpy()
    if by is None:
        keys = pl.Series([WHOLE] if arrivals.size else [], dtype=pl.UInt64)
        return keys, arrivals, np.array([0, arrivals.size]), np.arange(keys.len())
    found = groups.group(frame, by)
    offsets = found.offsets()
    known = found.labels["key"] != UNKNOWN
    return found.labels["key"].filter(known), found.arranged(arrivals, offsets), offsets, found.order[known.to_numpy()]


def _merge(left: pl.DataFrame, right: pl.DataFrame, *, bits: int) -> pl.DataFrame:
    keys, left_rows, right_rows = align(left["key"].to_numpy(), right["key"].to_numpy())
    earlier, later = _at(left, left_rows), _at(right, right_rows)
    gaps = (later["first_us"] - earlier["last_us"]).alias("gap_us")
    made = pairs.border(earlier, later, gaps.fill_null(-1).to_numpy(), bits)
    both = cells.merge(cells.read(left, "pairs"), left_rows, cells.read(right, "pairs"), right_rows)
    rows = np.arange(keys.size, dtype=np.int32)
    sides = earlier.hstack([gaps, *(column.alias(f"{column.name}_later") for column in later.iter_columns())])
    return _with_logs(sides).select(
        pl.Series("key", keys), *_joined_edges(), *_joined_sums(), *cells.lists(cells.merge(both, rows, made, rows), "pairs")
    )


def _at(frame: pl.DataFrame, rows: npt.NDArray[np.int32]) -> pl.DataFrame:
    """The rows at these places, of nulls where a place is negative."""
    places = pl.Series(rows).to_frame("row").select(pl.when(pl.col("row") >= 0).then("row")).to_series()
    return frame.select(pl.exclude("key", "pairs", "counts").gather(places))


def _with_logs(sides: pl.DataFrame) -> pl.DataFrame:
    """The fixed logarithms of the gap at the border, and of the positive gaps before and after it; 0 where there is none."""
    named = {"log": "gap_us", "log_before": "last_positive_us", "log_after": "first_positive_us_later"}
    return sides.with_columns(
        pl.Series(name, fixed_logs(*cells.frozen(sides[column].fill_null(0).to_numpy()))).cast(pl.Int128)
        for name, column in named.items()
    )


def _joined_edges() -> list[pl.Expr]:
    gap = pl.col("gap_us")
    positive = pl.when(gap > 0).then(gap)
    return [
        pl.sum_horizontal("requests", "requests_later").alias("requests"),
        pl.coalesce("first_us", "first_us_later").alias("first_us"),
        pl.coalesce("last_us_later", "last_us").alias("last_us"),
        pl.sum_horizontal("ties", "ties_later", (gap == 0).cast(pl.Int64)).alias("ties"),
        pl.coalesce("first_gap_us", gap, "first_gap_us_later").alias("first_gap_us"),
        pl.coalesce("last_gap_us_later", gap, "last_gap_us").alias("last_gap_us"),
        pl.coalesce("first_positive_us", positive, "first_positive_us_later").alias("first_positive_us"),
        pl.coalesce("last_positive_us_later", positive, "last_positive_us").alias("last_positive_us"),
    ]


def _joined_sums() -> list[pl.Expr]:
    """The sums of both sides, and what the gap between them adds; at a tie the positive gaps around it become neighbours."""
    gap, before, after = (pl.col(name).cast(pl.Int128) for name in ("gap_us", "last_gap_us", "first_gap_us_later"))
    log, log_before, log_after = (pl.col(name) for name in ("log", "log_before", "log_after"))
    across = pl.when(pl.col("gap_us") == 0).then(log_before * log_after)
    terms = {
        "logs": [log],
        "squares": [gap * gap],
        "products": [before * gap, gap * after],
        "log_squares": [log * log],
        "log_products": [log_before * log, log * log_after, across],
    }
    return [pl.sum_horizontal(name, f"{name}_later", *added_terms).alias(name) for name, added_terms in terms.items()]


@njit(nogil=True, cache=True)
def _walk(
    times: Integers, offsets: Integers, order: Integers
) -> tuple[tuple[Integers, Integers, Integers, Integers, Integers, Integers, Integers], Integers, Wide, Wide]:
    """Edges and sums of each group's gaps, in the given order; -1 is a gap that there is not."""
    first, last, ties = np.empty_like(order), np.empty_like(order), np.zeros_like(order)
    first_gap, last_gap = np.full_like(order, -1), np.full_like(order, -1)
    first_positive, last_positive = np.full_like(order, -1), np.full_like(order, -1)
    logs = np.zeros_like(order)
    high, low = np.zeros((len(_SQUARES), order.size), np.uint64), np.zeros((len(_SQUARES), order.size), np.uint64)
    for place in range(order.size):
        group = times[offsets[order[place]] : offsets[order[place] + 1]]
        first[place], last[place] = group[0], group[-1]
        if group.size > 1:
            first_gap[place], last_gap[place] = group[1] - group[0], group[-1] - group[-2]
            first_positive[place], last_positive[place] = _positive_edges(group)
        _add_squares(group, high[:, place], low[:, place])
        ties[place], logs[place] = _add_logs(group, high[:, place], low[:, place])
    return (first, last, ties, first_gap, last_gap, first_positive, last_positive), logs, high, low


@njit(nogil=True, cache=True)
def _positive_edges(group: Integers) -> tuple[int, int]:
    """The first and the last positive gap; -1 where there is none."""
    if group[0] == group[-1]:
        return -1, -1
    start, end = 0, group.size - 1
    while group[start + 1] == group[start]:
        start += 1
    while group[end - 1] == group[end]:
        end -= 1
    return group[start + 1] - group[start], group[end] - group[end - 1]


@njit(nogil=True, cache=True)
def _add_squares(group: Integers, high: Wide, low: Wide) -> None:
    """Σ gap² and Σ gap · next gap of a group."""
    before = np.uint64(0)
    square_high, square_low, product_high, product_low = high[0], low[0], high[1], low[1]
    for row in range(1, group.size):
        gap = np.uint64(group[row] - group[row - 1])
        square_high, square_low = added(square_high, square_low, gap, gap)
        product_high, product_low = added(product_high, product_low, before, gap)
        before = gap
    high[0], low[0], high[1], low[1] = square_high, square_low, product_high, product_low


@njit(nogil=True, cache=True)
def _add_logs(group: Integers, high: Wide, low: Wide) -> tuple[int, int]:
    """Σ l² and Σ l · next l of a group's positive gaps; the number of its ties and Σ l."""
    before = np.uint64(0)
    ties, logs = 0, 0
    square_high, square_low, product_high, product_low = high[2], low[2], high[3], low[3]
    for row in range(1, group.size):
        gap = group[row] - group[row - 1]
        tie = gap == 0
        log = np.uint64(0) if tie else np.uint64(fixed_log(gap + tie))
        ties, logs = ties + tie, logs + int(log)
        square_high, square_low = added(square_high, square_low, log, log)
        product_high, product_low = added(product_high, product_low, before, log)
        before = before if tie else log
    high[2], low[2], high[3], low[3] = square_high, square_low, product_high, product_low
    return ties, logs
