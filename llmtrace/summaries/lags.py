"""The gaps of a key: how many, how long and how unequal they are, and how each depends on the one before it.

All sums are over integers, so that cutting changes no bit of them. Two sequences are told apart: that of all gaps, ties (gaps of
length zero) included, and that of the positive gaps, which is the first without its ties.

Columns, one row per known key, ascending; the sums are in two columns each, `..._high` and `..._low`: the upper and the lower 64
of their 128 bits, both as signed integers.

    key
    requests
    first_us, last_us                       the first and the last arrival; their difference is the sum of the gaps
    ties
    first_gap_us, last_gap_us               -1 with fewer than two requests
    first_positive_us, last_positive_us     the first and the last positive gap; -1 where there is none
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

from llmtrace.summaries import by_key, cells, moments, pairs
from llmtrace.summaries.fixed import added, added_half, fixed_log, fixed_logs
from llmtrace.summaries.gaps import align
from llmtrace.summaries.pairs import bucket_of_gap, count_pair, drain, list_pairs, new_grid
from llmtrace.summaries.summary import Summary
from llmtrace.summaries.sums import wide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.groups import Integers

    Row = npt.NDArray[np.int64]
    Codes = npt.NDArray[np.uint32]

__all__ = ["WHOLE", "combine", "describe", "summary", "summary_of_all"]

WHOLE = 1
"""The key of all requests together."""
_FEW = 24
"""The pairs of so many arrivals are counted faster by insertion than in a grid."""

_EDGES = (
    "requests",
    "first_us",
    "last_us",
    "ties",
    "first_gap_us",
    "last_gap_us",
    "first_positive_us",
    "last_positive_us",
)
REQUESTS, FIRST, LAST, TIES, FIRST_GAP, LAST_GAP, FIRST_POSITIVE, LAST_POSITIVE = range(len(_EDGES))
_SUMS = ("squares", "products", "logs", "log_squares", "log_products")
SQUARES, PRODUCTS, LOGS, LOG_SQUARES, LOG_PRODUCTS = (len(_EDGES) + 2 * place for place in range(len(_SUMS)))
_FIELDS = (*_EDGES, *(f"{name}_{half}" for name in _SUMS for half in ("high", "low")))
_WIDTH = len(_FIELDS)
_SCHEMA: Mapping[str, pl.DataType] = {
    "key": pl.UInt64(),
    **dict.fromkeys(_FIELDS, pl.Int64()),
    "pairs": pl.List(pl.UInt32()),
    "counts": pl.List(pl.UInt32()),
}


def summary(*, bits: int) -> Summary:
    """Describe the gaps of each key of a part in the form of `by_key`.

    Args:
        bits: significant bits of the buckets that pairs are counted in, 1 to 7.
    """
    return Summary({"key": pl.col("key"), "arrivals": pl.col("arrivals")}, _SCHEMA, partial(_summarise, bits=bits))


def summary_of_all(*, bits: int) -> Summary:
    """Describe the gaps of all requests of a part that is sorted by time, as those of one key, `WHOLE`."""
    return Summary({"timestamp": pl.col("timestamp").to_physical()}, _SCHEMA, partial(_summarise_all, bits=bits))


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
    gaps = frame["requests"] - 1
    total = frame["last_us"] - frame["first_us"]
    mean_s, std_s = total / gaps / 1e6, moments.deviation(gaps, total, _sum(frame, "squares")) / 1e6
    columns = {
        "gaps": gaps,
        "ties": frame["ties"],
        "mean_gap_s": mean_s.set(gaps < 1, None),
        "std_gap_s": std_s,
        "cv": (std_s / mean_s).set(total < 1, None),
        "burstiness": ((std_s - mean_s) / (std_s + mean_s)).set(total < 1, None),
        "lag1_pearson": moments.correlation(_lagged_gaps(frame, gaps, total)),
        "lag1_log_pearson": moments.correlation(_lagged_logs(frame, gaps - frame["ties"])),
    }
    found = cells.read(frame, "pairs")
    for name, sequence in (("lag1_spearman", pairs.ALL_GAPS), ("lag1_spearman_positive", pairs.POSITIVE_GAPS)):
        _, coefficients, bounds = pairs.spearman(found, bits, sequence)
        columns |= {name: pl.Series(coefficients).fill_nan(None), f"{name}_bound": pl.Series(bounds).fill_nan(None)}
    return frame.select("key", "requests", **columns)


def _sum(frame: pl.DataFrame, name: str) -> pl.Series:
    return wide(frame[f"{name}_high"].to_numpy(), frame[f"{name}_low"].to_numpy().view(np.uint64))


def _lagged_gaps(frame: pl.DataFrame, gaps: pl.Series, total: pl.Series) -> moments.Sums:
    """Pairs of a gap and the next: all but the last gap, and all but the first."""
    first, last = (frame[name].cast(pl.Int128) for name in ("first_gap_us", "last_gap_us"))
    return _lagged(gaps, total, _sum(frame, "squares"), _sum(frame, "products"), (first, last))


def _lagged_logs(frame: pl.DataFrame, positive: pl.Series) -> moments.Sums:
    first, last = (
        pl.Series(fixed_logs(*cells.frozen(frame[name].to_numpy()))).cast(pl.Int128)
        for name in ("first_positive_us", "last_positive_us")
    )
    logs, squares, products = (_sum(frame, name) for name in ("logs", "log_squares", "log_products"))
    return _lagged(positive, logs, squares, products, (first, last))


def _lagged(
    count: pl.Series, total: pl.Series, squares: pl.Series, products: pl.Series, ends: tuple[pl.Series, pl.Series]
) -> moments.Sums:
    """Sums over pairs of neighbours in a sequence, from those over the sequence and from its first and its last value."""
    first, last = ends
    return moments.Sums(count - 1, total - last, squares - last * last, total - first, squares - first * first, products)


def _summarise(frame: pl.DataFrame, *, bits: int) -> pl.DataFrame:
    return _walked(*by_key.read(frame), bits)


def _summarise_all(frame: pl.DataFrame, *, bits: int) -> pl.DataFrame:
    times = frame["timestamp"].to_numpy()
    keys, offsets = np.full(min(times.size, 1), WHOLE, np.uint64), np.unique([0, times.size])
    return _walked(keys, times, offsets, bits)


def _walked(keys: npt.NDArray[np.uint64], arrivals: Integers, starts: Integers, bits: int) -> pl.DataFrame:
    times, offsets = cells.frozen(arrivals, starts)
    fields, found = _walk(times, offsets, bits)
    return _frame(keys, fields, found)


def _merge(left: pl.DataFrame, right: pl.DataFrame, *, bits: int) -> pl.DataFrame:
    if left.is_empty() or right.is_empty():
        return left if right.is_empty() else right
    keys, left_rows, right_rows = align(left["key"].to_numpy(), right["key"].to_numpy())
    sides = [np.column_stack([side[name].to_numpy() for name in _FIELDS]) for side in (left, right)]
    joined, borders = _join(*cells.frozen(sides[0], left_rows, sides[1], right_rows))
    more, fewer = (cells.read(left, "pairs"), left_rows), (cells.read(right, "pairs"), right_rows)
    if more[0][1].size < fewer[0][1].size:
        more, fewer = fewer, more
    # The few pairs across the border go to the side that is copied faster.
    rows = np.arange(keys.size, dtype=np.int32)
    fewer = cells.merge(pairs.border(borders, bits), rows, *fewer), rows
    return _frame(keys, joined, cells.merge(*more, *fewer))


def _frame(keys: npt.NDArray[np.uint64], fields: Integers, found: cells.Cells) -> pl.DataFrame:
    columns = [pl.Series(name, fields[:, place]) for place, name in enumerate(_FIELDS)]
    return pl.DataFrame([pl.Series("key", keys), *columns, *cells.lists(found, "pairs")])


@njit(nogil=True, cache=True)
def _walk(times: Integers, offsets: Integers, bits: int) -> tuple[Integers, cells.Cells]:
    """A row of `_FIELDS` for each key, and its pairs."""
    fields = np.zeros((offsets.size - 1, _WIDTH), np.int64)
    ends = np.zeros(offsets.size, np.int64)
    found, counts = np.empty(2 * times.size + 1, np.uint32), np.empty(2 * times.size + 1, np.uint32)
    grid, reach = new_grid(bits)
    for key in range(offsets.size - 1):
        arrivals, row = times[offsets[key] : offsets[key + 1]], fields[key]
        _set_edges(arrivals, row)
        if arrivals.size < _FEW:
            _add_squares(arrivals, row)
            _add_logs(arrivals, row)
            ends[key + 1] = list_pairs(arrivals, bits, found, counts, ends[key])
        else:
            low, high = _follow(arrivals, bits, row, grid, reach)
            ends[key + 1] = drain(grid, reach, low, high, found, counts, ends[key])
    return fields, (ends, found[: ends[-1]].copy(), counts[: ends[-1]].copy())


@njit(nogil=True, cache=True)
def _set_edges(arrivals: Integers, row: Row) -> None:
    row[REQUESTS], row[FIRST], row[LAST] = arrivals.size, arrivals[0], arrivals[-1]
    row[FIRST_GAP : LAST_POSITIVE + 1] = -1
    if arrivals.size > 1:
        row[FIRST_GAP], row[LAST_GAP] = arrivals[1] - arrivals[0], arrivals[-1] - arrivals[-2]
        row[FIRST_POSITIVE], row[LAST_POSITIVE] = _positive_edges(arrivals)


@njit(nogil=True, cache=True)
def _follow(arrivals: Integers, bits: int, row: Row, grid: Codes, reach: Integers) -> tuple[int, int]:
    """What the two functions below add and the pairs of `pairs`, for many arrivals in one pass; the grid's rows in use."""
    apart = grid.shape[1]
    gap_before, log_before, before, positive = np.uint64(0), np.uint64(0), 0, 0
    square_high, square_low, product_high, product_low = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)
    log_square_high, log_square_low = np.uint64(0), np.uint64(0)
    log_product_high, log_product_low = np.uint64(0), np.uint64(0)
    low, high, ties, logs = apart, 0, 0, np.uint64(0)
    for place in range(1, arrivals.size):
        gap = np.uint64(arrivals[place] - arrivals[place - 1])
        log, bucket = _log_and_bucket(arrivals[place] - arrivals[place - 1], bits)
        ties += bucket == 0
        logs += log
        square_high, square_low = added(square_high, square_low, gap, gap)
        product_high, product_low = added(product_high, product_low, gap_before, gap)
        log_square_high, log_square_low = added_half(log_square_high, log_square_low, log, log)
        log_product_high, log_product_low = added_half(log_product_high, log_product_low, log_before, log)
        if place > 1:
            low, high = min(low, before), max(high, before)
            count_pair(grid, reach, before, bucket)
        if before == 0 and bucket > 0 and positive > 0:
            high = max(high, apart + positive)
            count_pair(grid, reach, apart + positive, bucket)
        gap_before, before = gap, bucket
        if bucket > 0:
            log_before, positive = log, bucket
    row[SQUARES], row[SQUARES + 1] = np.int64(square_high), np.int64(square_low)
    row[PRODUCTS], row[PRODUCTS + 1] = np.int64(product_high), np.int64(product_low)
    row[LOG_SQUARES], row[LOG_SQUARES + 1] = np.int64(log_square_high), np.int64(log_square_low)
    row[LOG_PRODUCTS], row[LOG_PRODUCTS + 1] = np.int64(log_product_high), np.int64(log_product_low)
    row[TIES], row[LOGS + 1] = ties, np.int64(logs)
    return low, high


@njit(nogil=True, cache=True)
def _log_and_bucket(gap: int, bits: int) -> tuple[np.uint64, int]:
    """The fixed logarithm and the bucket of a gap; zero, both, of a tie, which alone is in that bucket."""
    tie = gap == 0
    bucket = bucket_of_gap(gap + tie, bits)
    return np.uint64(fixed_log(gap + tie)), 0 if tie else bucket


@njit(nogil=True, cache=True)
def _positive_edges(arrivals: Integers) -> tuple[int, int]:
    """The first and the last positive gap; -1 where there is none."""
    if arrivals[0] == arrivals[-1]:
        return -1, -1
    start, end = 0, arrivals.size - 1
    while arrivals[start + 1] == arrivals[start]:
        start += 1
    while arrivals[end - 1] == arrivals[end]:
        end -= 1
    return arrivals[start + 1] - arrivals[start], arrivals[end] - arrivals[end - 1]


@njit(nogil=True, cache=True)
def _add_squares(arrivals: Integers, row: Row) -> None:
    """Σ gap² and Σ gap · next gap."""
    before = np.uint64(0)
    square_high, square_low = np.uint64(0), np.uint64(0)
    product_high, product_low = np.uint64(0), np.uint64(0)
    for place in range(1, arrivals.size):
        gap = np.uint64(arrivals[place] - arrivals[place - 1])
        square_high, square_low = added(square_high, square_low, gap, gap)
        product_high, product_low = added(product_high, product_low, before, gap)
        before = gap
    row[SQUARES], row[SQUARES + 1] = np.int64(square_high), np.int64(square_low)
    row[PRODUCTS], row[PRODUCTS + 1] = np.int64(product_high), np.int64(product_low)


@njit(nogil=True, cache=True)
def _add_logs(arrivals: Integers, row: Row) -> None:
    """Ties; Σ l, Σ l² and Σ l · next l over the positive gaps."""
    before, logs, ties = np.uint64(0), np.uint64(0), 0
    square_high, square_low = np.uint64(0), np.uint64(0)
    product_high, product_low = np.uint64(0), np.uint64(0)
    for place in range(1, arrivals.size):
        gap = arrivals[place] - arrivals[place - 1]
        tie = gap == 0
        ties += tie
        log = np.uint64(fixed_log(gap + tie))  # of a tie that of one, which is zero
        logs += log
        square_high, square_low = added_half(square_high, square_low, log, log)
        product_high, product_low = added_half(product_high, product_low, before, log)
        before = before if tie else log
    row[TIES] = ties
    row[LOGS + 1] = np.int64(logs)
    row[LOG_SQUARES], row[LOG_SQUARES + 1] = np.int64(square_high), np.int64(square_low)
    row[LOG_PRODUCTS], row[LOG_PRODUCTS + 1] = np.int64(product_high), np.int64(product_low)


@njit(nogil=True, cache=True)
def _add(row: Row, place: int, x: int, y: int) -> None:
    """Add a product to one of the sums; a factor that is not positive adds nothing."""
    if x > 0 and y > 0:
        high, low = added(np.uint64(row[place]), np.uint64(row[place + 1]), np.uint64(x), np.uint64(y))
        row[place], row[place + 1] = np.int64(high), np.int64(low)


@njit(nogil=True, cache=True)
def _join(left: Integers, left_rows: Integers, right: Integers, right_rows: Integers) -> tuple[Integers, Integers]:
    """The rows of both sides together, and what `pairs.border` needs of those that both have."""
    joined = np.empty((left_rows.size, _WIDTH), np.int64)
    borders = np.full((left_rows.size, 5), -1)
    for place in range(left_rows.size):
        if left_rows[place] < 0:
            joined[place] = right[right_rows[place]]
        elif right_rows[place] < 0:
            joined[place] = left[left_rows[place]]
        else:
            _join_rows(left[left_rows[place]], right[right_rows[place]], joined[place], borders[place])
    return joined, borders


@njit(nogil=True, cache=True)
def _join_rows(left: Row, right: Row, both: Row, border: Row) -> None:
    """One key's requests on both sides, and the gap between them, which joins the gaps around it to pairs."""
    gap = right[FIRST] - left[LAST]
    border[:] = left[LAST_GAP], left[LAST_POSITIVE], gap, right[FIRST_GAP], right[FIRST_POSITIVE]
    both[REQUESTS], both[TIES] = left[REQUESTS] + right[REQUESTS], left[TIES] + right[TIES] + (gap == 0)
    both[FIRST], both[LAST] = left[FIRST], right[LAST]
    both[FIRST_GAP] = left[FIRST_GAP] if left[FIRST_GAP] >= 0 else gap
    both[LAST_GAP] = right[LAST_GAP] if right[LAST_GAP] >= 0 else gap
    positive = gap if gap > 0 else -1
    after = right[FIRST_POSITIVE] if positive < 0 else positive
    before = left[LAST_POSITIVE] if positive < 0 else positive
    both[FIRST_POSITIVE] = left[FIRST_POSITIVE] if left[FIRST_POSITIVE] > 0 else after
    both[LAST_POSITIVE] = right[LAST_POSITIVE] if right[LAST_POSITIVE] > 0 else before
    for place in range(SQUARES, _WIDTH, 2):
        low = np.uint64(left[place + 1]) + np.uint64(right[place + 1])
        carry = np.int64(low < np.uint64(left[place + 1]))
        both[place], both[place + 1] = left[place] + right[place] + carry, np.int64(low)
    _add(both, SQUARES, gap, gap)
    _add(both, PRODUCTS, left[LAST_GAP], gap)
    _add(both, PRODUCTS, gap, right[FIRST_GAP])
    _join_logs(left[LAST_POSITIVE], positive, right[FIRST_POSITIVE], both)


@njit(nogil=True, cache=True)
def _join_logs(before: int, gap: int, after: int, both: Row) -> None:
    """What the gap at a border adds to the sums of logarithms; at a tie the positive gaps around it become neighbours."""
    log_before = fixed_log(before) if before > 0 else 0
    log_after = fixed_log(after) if after > 0 else 0
    if gap < 0:
        _add(both, LOG_PRODUCTS, log_before, log_after)
        return
    log = fixed_log(gap)
    _add(both, LOGS, 1, log)
    _add(both, LOG_SQUARES, log, log)
    _add(both, LOG_PRODUCTS, log_before, log)
    _add(both, LOG_PRODUCTS, log, log_after)
