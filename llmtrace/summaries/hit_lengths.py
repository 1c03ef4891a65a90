"""Hit ratios by input length: in bands, and with the time to first token (TTFT) in a grid of input length and ratio."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries import cells, hits
from llmtrace.summaries.histogram import bucket_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from llmtrace.summaries.groups import Integers
    from llmtrace.summaries.hits import Bands, Cells, Hits, Steps, Table

    Floats = npt.NDArray[np.float64]
    Counts = np.ndarray[tuple[int, int], np.dtype[np.uint32]]

__all__ = ["BITS", "COLUMNS", "LONGEST_TTFT_S", "ROWS", "TTFT_SCHEMA", "by_length", "split", "ttft"]

COLUMNS = (*range(0, 32_000, 2_000), 32_000, 64_000, 128_000)
"""The lowest input tokens of each column of the grid: 2,000 tokens wide up to 32,000, as in the paper."""
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
_LAST = COLUMNS[-1] // _UNIT
_COLUMN = (np.searchsorted(COLUMNS, np.arange(_LAST + 1) * _UNIT, side="right") - 1).astype(np.uint8)
"""The column of every multiple of `_UNIT`, the last for all beyond."""
_CELLS_PER_ROW = 2 * hits.STEPS // (ROWS - 1)
_MICRO = 1_000_000
_BUCKETS = ((LONGEST_TTFT_S * _MICRO).bit_length() - BITS + 1) << BITS
_WORDS = 6
_HALF_BITS = 32
_LOWER_HALF = (1 << _HALF_BITS) - 1


def by_length(pieces: Iterable[Hits], zero_cell: int, full_cell: int) -> pl.DataFrame:
    """A summary of `hits` by band and cell, of requests with a ratio: the key is the band times `hits.CELLS` and the cell.

    Args:
        pieces: the requests of a part, some after the other.
        zero_cell: the highest cell that counts as no hit.
        full_cell: the lowest that counts as a hit of the whole prefix.
    """
    words: Table = np.zeros((len(hits.BANDS) * hits.CELLS, _WORDS), np.int64)
    for some in pieces:
        _add(some.inputs, some.cached, some.cells, some.bands, some.ratios, words)
    keys = np.flatnonzero(words[:, 0])
    requests, *sums = words[keys].T
    cell = keys % hits.CELLS
    counts = (requests, requests, requests * (cell <= zero_cell), requests * (cell >= full_cell))
    return hits.frame(keys.astype(np.uint64), np.stack([*counts, *sums]))


def split(frame: pl.DataFrame) -> pl.DataFrame:
    """The summary of `by_length` with the columns `band` and `cell` instead of the key."""
    place = pl.col("key").cast(pl.Int64)
    return frame.select((place // hits.CELLS).alias("band"), (place % hits.CELLS).alias("cell"), pl.exclude("key"))


def ttft(pieces: Iterable[tuple[Hits, Floats]]) -> pl.DataFrame:
    """Histograms of the TTFT of requests with a ratio, above zero and below `LONGEST_TTFT_S`, by place in the grid.

    Args:
        pieces: the requests of a part, some after the other, and the TTFT of each, zero where not known.
    """
    places = len(COLUMNS) * ROWS
    counts: Counts = np.zeros((places, _BUCKETS), np.uint32)
    total, least, most = np.zeros(places, np.int64), np.full(places, np.iinfo(np.int64).max), np.zeros(places, np.int64)
    for some, ttft_s in pieces:
        _tally(some.inputs, some.cells, _read_only(ttft_s), _COLUMN, counts, total, least, most)
    offsets, buckets, numbers = _sparse(counts)
    keys = np.flatnonzero(np.diff(offsets))
    known = np.add.reduceat(numbers, offsets[keys], dtype=np.int64) if keys.size else keys
    totals = {"key": keys, "known": known, "sum": total[keys], "min": least[keys], "max": most[keys]}
    lists = cells.lists((np.append(offsets[keys], numbers.size), buckets, numbers), "buckets")
    return pl.DataFrame(totals, {name: TTFT_SCHEMA[name] for name in totals}).with_columns(lists)


def _read_only(values: Floats) -> Floats:
    """The same array as kernels take it, whoever owns it (see `cells.frozen`)."""
    view = values.view()
    view.flags.writeable = False
    return view


@njit(nogil=True, cache=True)
def _add(inputs: Integers, cached: Integers, found: Cells, bands: Bands, ratios: Steps, words: Table) -> None:
    """Add requests to the words of their bands and cells, which are in the order of the sums of `hits`."""
    for row in range(inputs.size):
        if found[row] < hits.CELLS:
            place = np.uint64(bands[row]) * np.uint64(hits.CELLS) + np.uint64(found[row])
            size, hit = inputs[row], min(cached[row], inputs[row])
            words[place, 0] += 1
            words[place, 1] += ratios[row]
            words[place, 3] += size & _LOWER_HALF
            words[place, 5] += hit & _LOWER_HALF
            if size > _LOWER_HALF:
                words[place, 2] += size >> _HALF_BITS
                words[place, 4] += hit >> _HALF_BITS


@njit(nogil=True, cache=True)
def _tally(
    inputs: Integers,
    found: Cells,
    ttft_s: Floats,
    column: Bands,
    counts: Counts,
    total: Integers,
    least: Integers,
    most: Integers,
) -> None:
    """Count the TTFT of each place, with its sum and extremes in microseconds."""
    for row in range(inputs.size):
        if found[row] < hits.CELLS and 0.0 < ttft_s[row] < LONGEST_TTFT_S:
            thousands = min(np.uint64(inputs[row]) // np.uint64(_UNIT), np.uint64(_LAST))
            place = np.uint64(column[thousands]) * np.uint64(ROWS) + np.uint64(found[row]) // np.uint64(_CELLS_PER_ROW)
            value = int(ttft_s[row] * _MICRO + 0.5)
            counts[place, np.uint64(bucket_of(value, BITS))] += 1
            total[place] += value
            if not least[place] <= value <= most[place]:
                least[place], most[place] = min(least[place], value), max(most[place], value)


@njit(nogil=True, cache=True)
def _sparse(counts: Counts) -> tuple[Integers, npt.NDArray[np.uint16], npt.NDArray[np.uint32]]:
    """Where each place begins in the lists that follow, the buckets that occur, and their counts."""
    size = np.count_nonzero(counts)
    offsets, buckets, numbers = np.zeros(len(counts) + 1, np.int64), np.empty(size, np.uint16), np.empty(size, np.uint32)
    at = 0
    for place in range(len(counts)):
        for bucket in range(counts.shape[1]):
            if counts[place, bucket]:
                buckets[at], numbers[at] = bucket, counts[place, bucket]
                at += 1
        offsets[place + 1] = at
    return offsets, buckets, numbers
