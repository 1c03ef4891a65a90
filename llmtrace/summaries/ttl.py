"""Gaps by the time to live (TTL) that covers them: exact counts and token sums on a grid of TTLs.

A request that comes back after a gap finds what an earlier request left behind if the gap is at most the TTL. The grid holds
R10 preferred numbers (ten to the decade, ISO 3) from 1 ms to 10^8 s, and 1, 5 and 15 minutes, 1 and 12 hours, a day and a week. A
gap belongs to the first step of the grid that is at least as long, so whatever is summed per step is exact at every TTL of the
grid: up to a TTL are the steps up to its own. Gaps beyond the grid have the step after its last.

A *cell* is finer: the gaps of one step in one bucket of a log-linear histogram of 11 bits (see `histogram`). Step and bucket
both grow with the gap, so that their sum numbers the cells in order. Cells give quantiles within a relative 2^-12 and, as no
cell lies across a TTL, exact counts up to each.

Columns of a summary of weights, one row per step that occurs, ascending:

    step            place in `TTLS_US`
    gaps            how many gaps it has
    input_tokens    sum of input tokens of the requests at the end of the gaps, Int128
    tokens          sum of tokens of the requests at their beginning, Int128
    token_us        sum of those tokens times the gap, in token-microseconds, Int128
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries.fixed import added
from llmtrace.summaries.histogram import bucket_of, bucket_starts
from llmtrace.summaries.sums import wide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.groups import Integers

    CellArray = npt.NDArray[np.uint32]
    Sums = np.ndarray[tuple[int, int], np.dtype[np.uint64]]

__all__ = [
    "BITS",
    "CELLS",
    "SCHEMA",
    "TTLS_US",
    "add",
    "added_up",
    "cell_of",
    "cell_starts",
    "combine",
    "no_sums",
    "steps",
    "weigh",
    "weights",
]

BITS = 11
"""Significant bits of the histogram that cells refine."""

_R10 = (100, 125, 160, 200, 250, 315, 400, 500, 630, 800)
_CUSTOMARY_S = (60, 300, 900, 3_600, 43_200, 86_400, 604_800)

TTLS_US: Integers = np.array(
    sorted([*(n * 10**decade for decade in range(1, 12) for n in _R10), 10**14, *(s * 10**6 for s in _CUSTOMARY_S)]), np.int64
)
"""The grid of TTLs, ascending, in microseconds."""

SCHEMA: Mapping[str, pl.DataType] = {
    "step": pl.UInt8(),
    "gaps": pl.Int64(),
    "input_tokens": pl.Int128(),
    "tokens": pl.Int128(),
    "token_us": pl.Int128(),
}

# A coarse histogram leads to the step: no bucket of 5 bits has more than one TTL in it.
_COARSE_BITS = 5
_STEPS = np.searchsorted(TTLS_US, bucket_starts(np.arange((64 - _COARSE_BITS) << _COARSE_BITS), _COARSE_BITS)).astype(np.uint8)
_LAST_OF_STEP = np.append(TTLS_US, np.iinfo(np.int64).max)

_BUCKETS = bucket_starts(np.arange((64 - BITS) << BITS), BITS)
# The union of both, for which union1d would keep every import waiting ten times as long.
_BEYOND = TTLS_US + 1
_INSIDE = _BEYOND[_BUCKETS[np.searchsorted(_BUCKETS, _BEYOND)] != _BEYOND]
_STARTS = np.insert(_BUCKETS, np.searchsorted(_BUCKETS, _INSIDE), _INSIDE)
_CELLS_OF_STARTS = np.searchsorted(_BUCKETS, _STARTS, "right") - 1 + np.searchsorted(TTLS_US, _STARTS)
CELLS = int(_CELLS_OF_STARTS[-1]) + 1
"""One more than the number of the last cell."""
_START_OF_CELL = np.zeros(CELLS, np.int64)
_START_OF_CELL[_CELLS_OF_STARTS] = _STARTS

_GAPS, _INPUT, _TOKENS, _AREA, _COLUMNS = 0, 1, 3, 5, 7
_ONE = np.uint64(1)


def steps(cells: npt.NDArray[np.integer[Any]]) -> Integers:
    """The step of each cell.

    >>> TTLS_US[steps(weigh(np.array([0, 100_000, 100_001]), *np.zeros((2, 3), np.int64), no_sums()))].tolist()
    [1000, 100000, 125000]
    """
    return np.searchsorted(TTLS_US, cell_starts(cells))


def cell_starts(cells: npt.NDArray[np.integer[Any]]) -> Integers:
    """The shortest gap of each cell, in microseconds.

    >>> cell_starts(weigh(np.array([0, 60_000_000, 60_000_001]), *np.zeros((2, 3), np.int64), no_sums())).tolist()
    [0, 59998208, 60000001]
    """
    starts: Integers = _START_OF_CELL[cells]
    return starts


def weigh(gaps_us: Integers, input_tokens: Integers, tokens: Integers, sums: Sums) -> CellArray:
    """Add gaps and their tokens to sums: the cell of each.

    Args:
        gaps_us: gaps in microseconds, not negative.
        input_tokens: of the request that ends each, 0 where not known.
        tokens: of the request that begins it, 0 where not known.
        sums: see `no_sums`.
    """
    cells = np.empty(gaps_us.size, np.uint32)
    _weigh(gaps_us, input_tokens, tokens, cells, sums)
    return cells


def no_sums() -> Sums:
    """Sums over no gaps, to be added to."""
    return np.zeros((_LAST_OF_STEP.size, _COLUMNS), np.uint64)


def added_up(some: Sequence[Sums]) -> Sums:
    """Several sums as one."""
    total = some[0].copy()
    for sums in some[1:]:
        total[:, _GAPS] += sums[:, _GAPS]
        for at in (_INPUT, _TOKENS, _AREA):
            total[:, at + 1] += sums[:, at + 1]
            total[:, at] += sums[:, at] + (total[:, at + 1] < sums[:, at + 1])
    return total


def weights(sums: Sums) -> pl.DataFrame:
    """The weights that sums hold."""
    halves = {"input_tokens": _INPUT, "tokens": _TOKENS, "token_us": _AREA}
    wides = {name: wide(sums[:, at].astype(np.int64), sums[:, at + 1].copy()) for name, at in halves.items()}
    found = pl.DataFrame({"step": np.arange(len(sums)), "gaps": sums[:, _GAPS], **wides}, dict(SCHEMA))
    return found.filter(pl.col("gaps") > 0)


def combine(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The weights of all gaps together."""
    return pl.concat(frames).group_by("step").sum().sort("step")


@njit(nogil=True, cache=True)
def cell_of(gap_us: int) -> int:
    """The cell of a gap (not negative), for kernels."""
    return bucket_of(gap_us, BITS) + _step_of(gap_us)


@njit(nogil=True, cache=True)
def add(sums: Sums, gap_us: int, input_tokens: int, tokens: int) -> int:
    """Add a gap (not negative) and its tokens to sums, for kernels; its cell."""
    step = _step_of(gap_us)
    ended, begun = np.uint64(input_tokens), np.uint64(tokens)
    sums[step, _GAPS] += _ONE
    _add(sums, step, _INPUT, ended)
    _add(sums, step, _TOKENS, begun)
    sums[step, _AREA], sums[step, _AREA + 1] = added(sums[step, _AREA], sums[step, _AREA + 1], begun, np.uint64(gap_us))
    return bucket_of(gap_us, BITS) + step


@njit(nogil=True, cache=True)
def _step_of(gap: int) -> int:
    step = int(_STEPS[bucket_of(gap, _COARSE_BITS)])
    return step + int(gap > _LAST_OF_STEP[step])


@njit(nogil=True, cache=True)
def _weigh(gaps: Integers, input_tokens: Integers, tokens: Integers, cells: CellArray, sums: Sums) -> None:
    for row in range(gaps.size):
        cells[row] = add(sums, gaps[row], input_tokens[row], tokens[row])


@njit(nogil=True, cache=True)
def _add(sums: Sums, step: int, at: int, value: np.uint64) -> None:
    """Add to a sum that is held in two halves, the upper one first."""
    low = sums[step, at + 1] + value
    sums[step, at] += np.uint64(low < value)
    sums[step, at + 1] = low
