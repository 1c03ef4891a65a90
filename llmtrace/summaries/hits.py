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
from llmtrace.summaries.interning import Interner
from llmtrace.summaries.sums import narrowed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.groups import Ids, Integers, Keys

    Cells = npt.NDArray[np.uint16]
    Steps = npt.NDArray[np.uint32]
    Sums = np.ndarray[tuple[int, int], np.dtype[np.int64]]

__all__ = [
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
    "measure",
    "per_key",
    "tokens",
]

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
_LARGEST_EXACT = 1 << 53
_ZERO, _ONE = np.uint64(0), np.uint64(1)


@dataclass(frozen=True)
class Hits:
    """The requests of a part; arrays are to be read only.

    Attributes:
        inputs: input tokens, negative where not known.
        cached: cached tokens, negative where not known.
        cells: the cell of each ratio, or `NO_RATIO`.
        ratios: each ratio in steps of `RATIO_UNIT`.
        failed: how many requests failed.
        unlogged: how many of the others did not log cached tokens.
        no_input: how many of the others have no input.
        first_row: the first with a ratio; -1 if there is none.
        last_row: the last one.
    """

    inputs: Integers
    cached: Integers
    cells: Cells
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
        self._sums: Sums = np.zeros((0, len(_SUMS)), np.int64)

    def add(self, state: pl.DataFrame) -> None:
        """Take the summary of the next part."""
        ids = self._interner.add(state["key"].to_numpy())
        if self._interner.keys.size > len(self._sums):
            wider: Sums = np.zeros((2 * self._interner.keys.size, len(_SUMS)), np.int64)
            wider[: len(self._sums)] = self._sums
            self._sums = wider
        ids, rows = frozen(ids, np.asfortranarray(state.select(_SUMS).to_numpy()))
        _add_rows(ids, rows, self._sums)

    def total(self) -> pl.DataFrame:
        """The summary of all of them."""
        keys = self._interner.keys
        return _frame(keys, self._sums[: keys.size])


def measure(inputs: Integers, cached: Integers) -> Hits:
    """The hit ratio of each request.

    Args:
        inputs: input tokens; negative where not known.
        cached: cached tokens, `UNLOGGED` or `FAILED`.

    >>> hits = measure(np.array([8, 8, 8, 8, 0]), np.array([0, 1, 8, UNLOGGED, 0]))
    >>> hits.cells.tolist(), hits.unlogged, hits.no_input
    ([0, 250, 2000, 2001, 2001], 1, 1)
    """
    cells, ratios = np.empty(inputs.size, np.uint16), np.empty(inputs.size, np.uint32)
    inputs, cached = frozen(inputs, cached)
    counts = _measure(inputs, cached, cells, ratios)
    cells, ratios = frozen(cells, ratios)
    return Hits(inputs, cached, cells, ratios, *counts)


def per_key(ids: Ids, keys: Keys, hits: Hits, zero_cell: int, full_cell: int) -> pl.DataFrame:
    """The summary of a part.

    Args:
        ids: the key of each request, as a place in `keys`.
        keys: each once.
        hits: the requests.
        zero_cell: the highest cell that counts as no hit.
        full_cell: the lowest that counts as a hit of the whole prefix.
    """
    sums: Sums = np.zeros((keys.size, len(_SUMS)), np.int64)
    (ids,) = frozen(ids)
    _add_requests(ids, hits.inputs, hits.cached, hits.cells, hits.ratios, zero_cell, full_cell, sums)
    return _frame(keys, sums)


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


def _frame(keys: Keys, sums: Sums) -> pl.DataFrame:
    columns = np.ascontiguousarray(sums.T)
    return pl.DataFrame({"key": keys, **dict(zip(_SUMS, columns, strict=True))}, dict(SCHEMA))


@njit(nogil=True, cache=True)
def _measure(inputs: Integers, cached: Integers, cells: Cells, ratios: Steps) -> tuple[int, int, int, int, int]:
    """Fill cells and ratios; how many requests have no ratio and why, and the first and the last row with one."""
    failed, unlogged, no_input, first, last = 0, 0, 0, -1, -1
    for row in range(inputs.size):
        size, hit = inputs[row], min(cached[row], inputs[row])
        if cached[row] < 0 or size <= 0:
            cells[row], ratios[row] = NO_RATIO, 0
            failed += cached[row] == FAILED
            unlogged += cached[row] == UNLOGGED
            no_input += cached[row] >= 0
        else:
            ratio = hit / size
            cells[row] = _cell(hit, size, ratio) if size < _LARGEST_EXACT else _cell_of_large(hit, size, ratio)
            ratios[row] = int(ratio / RATIO_UNIT + 0.5)
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
    ids: Ids, inputs: Integers, cached: Integers, cells: Cells, ratios: Steps, zero_cell: int, full_cell: int, sums: Sums
) -> None:
    for row in range(ids.size):
        one, cell = ids[row], cells[row]
        sums[one, 0] += 1
        if cell != NO_RATIO:
            size, hit = inputs[row], min(cached[row], inputs[row])
            sums[one, 1] += 1
            sums[one, 2] += cell <= zero_cell
            sums[one, 3] += cell >= full_cell
            sums[one, 4] += ratios[row]
            sums[one, 5] += size >> _HALF_BITS
            sums[one, 6] += size & _LOWER_HALF
            sums[one, 7] += hit >> _HALF_BITS
            sums[one, 8] += hit & _LOWER_HALF


@njit(nogil=True, cache=True)
def _add_rows(ids: Ids, rows: Sums, sums: Sums) -> None:
    for row in range(ids.size):
        for place in range(rows.shape[1]):
            sums[ids[row], place] += rows[row, place]
