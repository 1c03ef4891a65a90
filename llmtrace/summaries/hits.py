"""Hit ratios of requests, told apart by cell, and what is summed over them per key.

The hit ratio of a request is its cached over its input tokens, at most 1; a request has one if it did not fail, its cached tokens
were logged and its input is not empty. Cell 2k holds the ratio k/STEPS alone, cell 2k + 1 what lies between it and (k + 1)/STEPS:
the shares of requests below and up to every multiple of 1/STEPS are exact, and no hit at all and the whole input have cells of
their own.

Columns of a summary, one row per key in order of first appearance, all Int64 but the key:

    key         UInt64
    requests    with and without a ratio
    measured    those with one
    zero, full  those with a ratio up to, and from, the two thresholds
    ratio       sum of the ratios in steps of RATIO_UNIT, to which each is rounded
    input_high, input_low, cached_high, cached_low
                sums of tokens over measured requests: high times 2^32 and low, which no trace is long enough to wrap
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries.accumulator import Accumulator
from llmtrace.summaries.cells import frozen
from llmtrace.summaries.fixed import added
from llmtrace.summaries.frames import frame_of
from llmtrace.summaries.interning import Interner
from llmtrace.summaries.sums import narrowed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.groups import Ids, Integers, Keys

    Bands = npt.NDArray[np.uint8]
    Cells = npt.NDArray[np.uint16]
    Steps = npt.NDArray[np.uint32]
    Table = np.ndarray[tuple[int, int], np.dtype[np.int64]]

__all__ = [
    "BANDS",
    "CELLS",
    "FAILED",
    "NO_RATIO",
    "RATIO_UNIT",
    "SCHEMA",
    "STEPS",
    "UNLOGGED",
    "Hits",
    "Ledger",
    "combine",
    "described",
    "frame",
    "measure",
    "per_key",
    "tokens",
]

BANDS = (0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000)
"""The lowest input tokens of each band; the last has no end."""
STEPS = 1_000
CELLS = 2 * STEPS + 1
NO_RATIO = CELLS
"""The cell of a request without a ratio."""
FAILED, UNLOGGED = -2, -1
"""What stands for the cached tokens of a failed request, and for those that were not logged."""
RATIO_UNIT = 2.0**-31

_SUMS = ("requests", "measured", "zero", "full", "ratio", "input_high", "input_low", "cached_high", "cached_low")
SCHEMA: Mapping[str, pl.DataType] = {"key": pl.UInt64(), **dict.fromkeys(_SUMS, pl.Int64())}
"""The columns of a summary."""

_HALF_BITS = 32
_LOWER_HALF = (1 << _HALF_BITS) - 1
_LARGEST_NARROW = (1 << 30) - 1
"""Up to so many tokens, twice of them and the ratios below 1 fit into 32 bits."""
_LARGEST_EXACT = 1 << 53
_LARGEST_RATIO = 2.0**31 - 1
"""What 32 bits hold with a sign, to which processors convert several at once: in steps, each ratio but 1."""
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_WORDS = 7
"""Of each key: requests and those with a ratio in one number, zero and full in one, and the sums that follow in `_SUMS`."""


@dataclass(frozen=True)
class Hits:
    """Requests that follow each other; arrays are to be read only.

    Attributes:
        inputs: input tokens, negative where not known.
        cached: cached tokens, negative where not known.
        cells: the cell of each ratio, or `NO_RATIO`.
        bands: the band of the input of each.
        ratios: each ratio in steps of `RATIO_UNIT`; of a request without one anything.
        failed: how many requests failed.
        unlogged: how many of the others did not log cached tokens.
        no_input: how many of the others have no input.
        first_row: the first with a ratio; -1 if there is none.
        last_row: the last one.
    """

    inputs: Integers
    cached: Integers
    cells: Cells
    bands: Bands
    ratios: Steps
    failed: int
    unlogged: int
    no_input: int
    first_row: int
    last_row: int


class Ledger(Accumulator[pl.DataFrame]):
    """Summaries brought together one after the other, in order of time, each at the cost of its own rows."""

    def __init__(self) -> None:
        """Nothing on the account of anybody."""
        self._interner = Interner()
        self._sums: Table = np.zeros((0, len(_SUMS)), np.int64)

    def add(self, state: pl.DataFrame) -> None:
        """Take the summary of the next part."""
        ids = self._interner.add(state["key"].to_numpy())
        if self._interner.keys.size > len(self._sums):
            wider: Table = np.zeros((2 * self._interner.keys.size, len(_SUMS)), np.int64)
            wider[: len(self._sums)] = self._sums
            self._sums = wider
        ids, *columns = frozen(ids, *(state[name].to_numpy() for name in _SUMS))
        _add_rows(ids, tuple(columns), self._sums)

    def total(self) -> pl.DataFrame:
        """The summary of all of them."""
        keys = self._interner.keys
        return frame(keys, np.ascontiguousarray(self._sums[: keys.size].T))


def measure(inputs: Integers, cached: Integers) -> Hits:
    """The hit ratio of each request.

    Args:
        inputs: input tokens; negative where not known.
        cached: cached tokens, `UNLOGGED` or `FAILED`.

    >>> hits = measure(np.array([8, 8, 8, 8, 0]), np.array([0, 1, 8, UNLOGGED, 0]))
    >>> hits.cells.tolist(), hits.unlogged, hits.no_input
    ([0, 250, 2000, 2001, 2001], 1, 1)
    """
    cells, bands, ratios = np.empty(inputs.size, np.uint16), np.empty(inputs.size, np.uint8), np.empty(inputs.size, np.uint32)
    inputs, cached = frozen(inputs, cached)
    measured, largest = _measure(inputs, cached, cells, bands, ratios)
    if largest > _LARGEST_NARROW:
        _measure_large(inputs, cached, cells, bands, ratios)
    counts = (0, 0, 0, 0, inputs.size - 1) if 0 < measured == inputs.size else _reasons(inputs, cached, cells)
    cells, bands, ratios = frozen(cells, bands, ratios)
    return Hits(inputs, cached, cells, bands, ratios, *counts)


def per_key(ids: Ids, keys: Keys, pieces: Iterable[Hits], zero_cell: int, full_cell: int) -> pl.DataFrame:
    """The summary of a part.

    Args:
        ids: the key of each request, as a place in `keys`.
        keys: each once.
        pieces: the requests, fewer than 2^31, some after the other.
        zero_cell: the highest cell that counts as no hit.
        full_cell: the lowest that counts as a hit of the whole prefix.
    """
    words: Table = np.zeros((keys.size, _WORDS), np.int64)
    rest = ids
    for some in pieces:
        (here,), rest = frozen(rest[: some.cells.size]), rest[some.cells.size :]
        _add_requests(here, some.inputs, some.cached, some.cells, some.ratios, zero_cell, full_cell, words)
    columns: Table = np.empty((len(_SUMS), keys.size), np.int64)
    _unpack(words, columns)
    return frame(keys, columns)


def frame(keys: Keys, columns: Table) -> pl.DataFrame:
    """A summary, from each of its sums for all keys."""
    return frame_of({"key": keys, **dict(zip(_SUMS, columns, strict=True))})


def combine(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The summary of several parts, in order of time."""
    return Ledger().together(frames)


def tokens(side: str) -> pl.Expr:
    """A sum of tokens, `input` or `cached`, of a summary: Int128."""
    high, low = (pl.col(f"{side}_{half}").cast(pl.Int128) for half in ("high", "low"))
    return (high * (1 << _HALF_BITS) + low).alias(f"{side}_tokens")


def described(frame: pl.DataFrame) -> pl.DataFrame:
    """A summary as people read it: what stands beside the sums, `requests`, `measured_requests`, ratios, shares and tokens.

    Returns:
        Ratios and shares are null where no request has a ratio; tokens are Int64 if all of them fit, else Int128.
    """
    measured = pl.when(pl.col("measured") > 0).then(pl.col("measured"))
    found = frame.with_columns(tokens("input"), tokens("cached"))
    return narrowed(
        found.select(
            pl.exclude(*_SUMS, "input_tokens", "cached_tokens"),
            "requests",
            pl.col("measured").alias("measured_requests"),
            (pl.col("ratio") * RATIO_UNIT / measured).alias("mean_request_hit_ratio"),
            pl.when(pl.col("measured") > 0).then(pl.col("cached_tokens") / pl.col("input_tokens")).alias("token_hit_ratio"),
            (pl.col("zero") / measured).alias("share_zero"),
            (pl.col("full") / measured).alias("share_full"),
            "input_tokens",
            "cached_tokens",
        )
    )


# Without a branch, and with 32 bits of everything but the tokens, several rows are measured at once. Products wrap, but what is
# left over does not: of the rounded ratio the number of whole steps may be off by one, which the rest tells.
@njit(nogil=True, cache=True, error_model="numpy")
def _measure(inputs: Integers, cached: Integers, cells: Cells, bands: Bands, ratios: Steps) -> tuple[int, int]:
    """Fill cells, bands and ratios of inputs up to `_LARGEST_NARROW`; how many have a ratio, and the largest input of all."""
    measured, largest = 0, 0
    for row in range(inputs.size):
        is_measured = (cached[row] >= 0) & (inputs[row] > 0)
        measured, largest = measured + is_measured, max(largest, inputs[row])
        size = max(np.int32(inputs[row]), np.int32(1))
        hit = max(np.int32(min(cached[row], inputs[row])), np.int32(0))
        ratio = np.float64(hit) / np.float64(size)
        step = np.int32(ratio * STEPS)
        rest = np.int32(np.int32(STEPS * hit) - np.int32(step * size))
        cell = 2 * step + (rest > 0) - (rest < 0) + (rest >= size) + (rest > size)
        band = np.int32(0)
        for edge in BANDS[1:]:
            band = np.int32(band + (size >= np.int32(edge)))
        cells[row], bands[row] = np.uint16(cell) if is_measured else np.uint16(NO_RATIO), np.uint8(band)
        ratios[row] = np.uint32(np.int32(min(ratio / RATIO_UNIT + 0.5, _LARGEST_RATIO))) + np.uint32(hit == size)
    return measured, largest


@njit(nogil=True, cache=True)
def _measure_large(inputs: Integers, cached: Integers, cells: Cells, bands: Bands, ratios: Steps) -> None:
    """The same of any inputs."""
    for row in range(inputs.size):
        size, hit = inputs[row], min(cached[row], inputs[row])
        if cached[row] >= 0 and size > 0:
            ratio = hit / size
            cells[row] = _cell(hit, size, ratio) if size < _LARGEST_EXACT else _cell_of_large(hit, size, ratio)
            ratios[row] = int(ratio / RATIO_UNIT + 0.5)
            bands[row] = 0
            for edge in BANDS[1:]:
                bands[row] += size >= edge


@njit(nogil=True, cache=True)
def _reasons(inputs: Integers, cached: Integers, cells: Cells) -> tuple[int, int, int, int, int]:
    """How many requests have no ratio and why, and the first and the last row with one."""
    failed, unlogged, no_input, first, last = 0, 0, 0, -1, -1
    for row in range(inputs.size):
        if cells[row] == NO_RATIO:
            failed += cached[row] == FAILED
            unlogged += cached[row] == UNLOGGED
            no_input += cached[row] >= 0
        else:
            first, last = row if first < 0 else first, row
    return failed, unlogged, no_input, first, last


@njit(nogil=True, cache=True, inline="always")
def _cell(hit: int, size: int, ratio: float) -> int:
    """The cell of hit/size. Of the rounded ratio its number of whole steps may be off by one, which the exact rest tells."""
    step = int(ratio * STEPS)
    rest = STEPS * hit - step * size
    step += (rest >= size) - (rest < 0)
    return 2 * step + (STEPS * hit != step * size)


@njit(nogil=True, cache=True)
def _cell_of_large(hit: int, size: int, ratio: float) -> int:
    """The same where products take 128 bits."""
    step = min(int(ratio * STEPS) + 1, STEPS)
    target = added(_ZERO, _ZERO, np.uint64(hit), np.uint64(STEPS))
    reached = added(_ZERO, _ZERO, np.uint64(step), np.uint64(size))
    while reached > target:
        step -= 1
        reached = added(_ZERO, _ZERO, np.uint64(step), np.uint64(size))
    return 2 * step + (reached != target)


@njit(nogil=True, cache=True)
def _add_requests(
    ids: Ids, inputs: Integers, cached: Integers, cells: Cells, ratios: Steps, zero_cell: int, full_cell: int, words: Table
) -> None:
    for row in range(ids.size):
        one, cell = np.uint64(ids[row]), cells[row]
        if cell == NO_RATIO:
            words[one, 0] += 1
        else:
            size, hit = inputs[row], min(cached[row], inputs[row])
            words[one, 0] += 1 + (1 << _HALF_BITS)
            words[one, 1] += (cell <= zero_cell) + (np.int64(cell >= full_cell) << _HALF_BITS)
            words[one, 2] += ratios[row]
            words[one, 3] += size & _LOWER_HALF
            words[one, 4] += hit & _LOWER_HALF
            if size > _LOWER_HALF:
                words[one, 5] += size >> _HALF_BITS
                words[one, 6] += hit >> _HALF_BITS


@njit(nogil=True, cache=True)
def _unpack(words: Table, columns: Table) -> None:
    """The columns of a summary, in the order of `_SUMS`."""
    for one in range(columns.shape[1]):
        for pair in range(2):
            columns[2 * pair, one] = words[one, pair] & _LOWER_HALF
            columns[2 * pair + 1, one] = words[one, pair] >> _HALF_BITS
        columns[4, one] = words[one, 2]
        columns[5, one], columns[6, one] = words[one, 5], words[one, 3]
        columns[7, one], columns[8, one] = words[one, 6], words[one, 4]


@njit(nogil=True, cache=True)
def _add_rows(ids: Ids, columns: tuple[Integers, ...], sums: Table) -> None:
    for row in range(ids.size):
        for place in range(len(columns)):
            sums[np.uint64(ids[row]), place] += columns[place][row]
