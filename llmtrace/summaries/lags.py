"""The gaps of a key: how many, how long and how unequal they are, and how each depends on the one before it.

All sums are over integers, so that cutting changes no bit of them. Ties, gaps of length zero, have no logarithm: sums of
logarithms are over the sequence of the positive gaps, which is that of all gaps without its ties.

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

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.summaries import by_key, cells, marked, moments, pairs
from llmtrace.summaries.fixed import fixed_logs
from llmtrace.summaries.lag_kernels import FIELDS, join, walk
from llmtrace.summaries.summary import Summary
from llmtrace.summaries.sums import wide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.cells import Cells
    from llmtrace.summaries.groups import Integers

__all__ = ["WHOLE", "combine", "describe", "summary", "summary_of_all"]

WHOLE = 1
"""The key of all requests together."""

_SCHEMA: Mapping[str, pl.DataType] = {
    "key": pl.UInt64(),
    **dict.fromkeys(FIELDS, pl.Int64()),
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
    rows = pl.concat(frames, how="vertical_relaxed")
    keys, order, starts = by_key.grouped(rows["key"].to_numpy())
    fields, borders = join(np.column_stack([rows[name].to_numpy() for name in FIELDS]), order, starts)
    # The pairs of a border are rows behind all others, each to be counted with the row that the border is before.
    found = cells.read(rows, "pairs")
    every = _end_to_end(found, pairs.border(borders, bits))
    with_borders = np.column_stack([order, np.arange(rows.height) + rows.height]).ravel()
    return _frame(keys, fields, marked.added_up(every, with_borders, 2 * starts))


def describe(frame: pl.DataFrame, *, bits: int, step_us: int = 1) -> pl.DataFrame:
    """What a summary says about the gaps of each key.

    Args:
        frame: the summary.
        bits: significant bits that it was made with.
        step_us: what every gap is a multiple of, in microseconds; the longer, the less may coefficients of ranks be off.

    Returns:
        In the order of the rows: `key`, `requests`, `gaps`, `ties`, `mean_gap_s`, `std_gap_s` (sample), `cv`, `burstiness`,
        `lag1_pearson`, `lag1_log_pearson` (of positive gaps, ties left out), `lag1_spearman`, `lag1_spearman_positive` (of pairs
        of two positive gaps), and how far the last two may be off (`..._bound`). Null is what so few gaps do not tell.
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
        _, coefficients, bounds = pairs.spearman(found, bits, sequence, step_us)
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
    return _frame(keys, *walk(times, offsets, bits, pairs.room(bits)))


def _end_to_end(first: Cells, second: Cells) -> Cells:
    offsets = np.concatenate([first[0], second[0][1:] + first[0][-1]])
    return offsets, np.concatenate([first[1], second[1]]), np.concatenate([first[2], second[2]])


def _frame(keys: npt.NDArray[np.uint64], fields: Integers, found: Cells) -> pl.DataFrame:
    columns = [pl.Series(name, fields[:, place]) for place, name in enumerate(FIELDS)]
    return pl.DataFrame([pl.Series("key", keys), *columns, *cells.lists(found, "pairs")])
