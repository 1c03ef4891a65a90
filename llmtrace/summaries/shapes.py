"""The token shape of keys: per key two histograms, of its input and of its output tokens, coarse enough for millions of keys.

Columns of a summary, one row per key, ascending:

    key                             `UNKNOWN` among them where it occurs
    input_buckets, input_counts     the histogram of input tokens (lists), of `profiles.BITS` significant bits
    output_buckets, output_counts   that of output tokens
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.summaries import profiles
from llmtrace.summaries.cells import frozen, lists, merge, read
from llmtrace.summaries.gaps import align
from llmtrace.summaries.histogram import bucket_starts, tallied
from llmtrace.summaries.quantiles import quantiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.cells import Cells
    from llmtrace.summaries.groups import Groups, Integers

    Floats = npt.NDArray[np.float64]

__all__ = ["SCHEMA", "SIDES", "combine", "medians", "summarise"]

SIDES = ("input", "output")
SCHEMA: Mapping[str, pl.DataType] = {
    "key": pl.UInt64(),
    **{
        name: dtype
        for side in SIDES
        for name, dtype in ((f"{side}_buckets", pl.List(pl.UInt16())), (f"{side}_counts", pl.List(pl.UInt32())))
    },
}
"""The columns of a summary."""


def summarise(groups: Groups, inputs: Integers, outputs: Integers) -> pl.DataFrame:
    """The shapes of a part.

    Args:
        groups: its requests by key.
        inputs: input tokens, -1 where they do not count.
        outputs: output tokens, the same.
    """
    offsets = groups.offsets()
    return _frame(groups.labels["key"], [tallied(groups, offsets, values, profiles.BITS) for values in (inputs, outputs)])


def combine(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The shapes of several parts."""
    return reduce(_joined, frames)


def medians(frame: pl.DataFrame, side: str) -> Floats:
    """The median of a side of each row, within a relative 2^-(profiles.BITS+1); NaN where nothing counts."""
    buckets = frame[f"{side}_buckets"]
    ends = {name: _middles(buckets.list.get(at, null_on_oob=True)) for name, at in (("min", 0), ("max", -1))}
    histograms = frame.select(buckets=buckets, counts=f"{side}_counts", **ends)
    return quantiles(histograms, (0.5,), bits=profiles.BITS)[:, 0]


def _middles(buckets: pl.Series) -> pl.Series:
    """The middle of each bucket; null where there is none."""
    places = buckets.fill_null(0).to_numpy().astype(np.int64)
    first, last = (bucket_starts(places, profiles.BITS), bucket_starts(places + 1, profiles.BITS) - 1)
    return pl.Series((first.astype(np.float64) + last.astype(np.float64)) / 2).set(buckets.is_null(), None)


def _joined(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    keys, ours, theirs = align(*(frozen(frame["key"].to_numpy())[0] for frame in (left, right)))
    names = ((f"{side}_buckets", f"{side}_counts") for side in SIDES)
    merged = [merge(read(left, *name), ours, read(right, *name), theirs) for name in names]
    return _frame(pl.Series(keys), merged)


def _frame(key: pl.Series, histograms: Sequence[Cells]) -> pl.DataFrame:
    named = zip(SIDES, histograms, strict=True)
    columns = (column for side, found in named for column in lists(found, f"{side}_buckets", f"{side}_counts"))
    return pl.DataFrame([key.alias("key"), *columns])
