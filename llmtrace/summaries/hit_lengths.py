"""Hit ratios by input length: in bands, and with the time to first token (TTFT) in a grid of input length and ratio."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries import cells, hits
from llmtrace.summaries.histogram import bucket_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.groups import Ids, Integers
    from llmtrace.summaries.hits import Cells, Hits

    Floats = npt.NDArray[np.float64]
    Bytes = npt.NDArray[np.uint8]
    Counts = np.ndarray[tuple[int, int], np.dtype[np.uint32]]

__all__ = ["BANDS", "BITS", "COLUMNS", "LONGEST_TTFT_S", "ROWS", "TTFT_SCHEMA", "by_length", "split", "ttft"]

BANDS = (0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000)
"""The lowest input tokens of each band; the last has no end."""
COLUMNS = (*range(0, 32_000, 2_000), 32_000, 64_000, 128_000)
"""The same of each column of the grid: 2,000 tokens wide up to 32,000, as in the paper."""
ROWS = 11
"""Rows of the grid: a tenth of the ratio each, and the last for all of the input."""
LONGEST_TTFT_S = 300
"""From there on a TTFT is no measurement but a time-out."""
BITS = 7
"""Significant bits of the histograms of TTFT."""
TTFT_SCHEMA: Mapping[str, pl.DataType] = {
    "key": pl.UInt64(),
    "known": pl.Int64(),
    "sum": pl.Int128(),
    "min": pl.Int64(),
    "max": pl.Int64(),
    "buckets": pl.List(pl.UInt16()),
    "counts": pl.List(pl.UInt32()),
}
"""A summary of `histogram`, in microseconds: the key is the column times `ROWS` and the row."""

_UNIT = 1_000
"""Every edge is a multiple of it."""
_LAST = BANDS[-1] // _UNIT
_MICRO = 1_000_000
_BUCKETS = ((LONGEST_TTFT_S * _MICRO).bit_length() - BITS + 1) << BITS


def _places(edges: Sequence[int]) -> Bytes:
    """The place among edges of every multiple of `_UNIT`, the last for all beyond."""
    return (np.searchsorted(edges, np.arange(_LAST + 1) * _UNIT, side="right") - 1).astype(np.uint8)


_BAND, _COLUMN = _places(BANDS), _places(COLUMNS)


def by_length(found: Hits, zero_cell: int, full_cell: int) -> pl.DataFrame:
    """A summary of `hits` by band and cell, of requests with a ratio: the key is the band times `hits.CELLS` and the cell.

    Args:
        found: the requests of a part.
        zero_cell: the highest cell that counts as no hit.
        full_cell: the lowest that counts as a hit of the whole prefix.
    """
    ids = np.empty(found.cells.size, np.uint32)
    _number(found.inputs, found.cells, _BAND, ids)
    keys = np.arange(len(BANDS) * hits.CELLS + 1, dtype=np.uint64)
    return hits.per_key(ids, keys, found, zero_cell, full_cell).filter(pl.col("measured") > 0)


def split(frame: pl.DataFrame) -> pl.DataFrame:
    """The summary of `by_length` with the columns `band` and `cell` instead of the key."""
    place = pl.col("key").cast(pl.Int64)
    return frame.select((place // hits.CELLS).alias("band"), (place % hits.CELLS).alias("cell"), pl.exclude("key"))


def ttft(found: Hits, ttft_s: Floats) -> pl.DataFrame:
    """Histograms of the TTFT of requests with a ratio, above zero and below `LONGEST_TTFT_S`, by place in the grid.

    Args:
        found: the requests of a part.
        ttft_s: the TTFT of each, zero where not known.
    """
    places = len(COLUMNS) * ROWS
    counts: Counts = np.zeros((places, _BUCKETS), np.uint32)
    total, least, most = np.zeros(places, np.int64), np.full(places, np.iinfo(np.int64).max), np.zeros(places, np.int64)
    _tally(found.inputs, found.cells, _read_only(ttft_s), _COLUMN, counts, total, least, most)
    keys = np.flatnonzero(counts.any(axis=1))
    occurring = np.flatnonzero(counts)
    numbers = counts.ravel()[occurring]
    offsets = np.append(np.searchsorted(occurring, keys * _BUCKETS), occurring.size)
    known = np.add.reduceat(numbers, offsets[:-1], dtype=np.int64) if keys.size else keys
    totals = {"key": keys, "known": known, "sum": total[keys], "min": least[keys], "max": most[keys]}
    lists = cells.lists((offsets, (occurring % _BUCKETS).astype(np.uint16), numbers), "buckets")
    schema = {name: TTFT_SCHEMA[name] for name in totals}
    return pl.DataFrame(totals, schema).with_columns(lists)


def _read_only(values: Floats) -> Floats:
    """The same array as kernels take it, whoever owns it (see `cells.frozen`)."""
    view = values.view()
    view.flags.writeable = False
    return view


@njit(nogil=True, cache=True)
def _number(inputs: Integers, found: Cells, band: Bytes, ids: Ids) -> None:
    """The place of each request by band and cell; those without a ratio together beyond all others."""
    for row in range(inputs.size):
        place = band[min(inputs[row] // _UNIT, _LAST)] * hits.CELLS + found[row] if found[row] < hits.CELLS else 0
        ids[row] = place if found[row] < hits.CELLS else len(BANDS) * hits.CELLS


@njit(nogil=True, cache=True)
def _tally(
    inputs: Integers,
    found: Cells,
    ttft_s: Floats,
    column: Bytes,
    counts: Counts,
    total: Integers,
    least: Integers,
    most: Integers,
) -> None:
    """Count the TTFT of each place, with its sum and extremes in microseconds."""
    for row in range(inputs.size):
        if found[row] < hits.CELLS and 0.0 < ttft_s[row] < LONGEST_TTFT_S:
            place = column[min(inputs[row] // _UNIT, _LAST)] * ROWS + found[row] // (2 * hits.STEPS // (ROWS - 1))
            value = int(ttft_s[row] * _MICRO + 0.5)
            counts[place, bucket_of(value, BITS)] += 1
            total[place] += value
            least[place], most[place] = min(least[place], value), max(most[place], value)
