"""The shape of distributions of hit ratios: quantiles, cumulative shares, and how far from one hump they are.

Distributions are rows of counts in cells: 2·steps + 1 of them, of which cell 2k holds the ratio k/steps alone and cell 2k + 1
what lies between it and (k + 1)/steps. A ratio between two steps is taken as the middle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]

__all__ = ["BINS", "CURVE", "UNIFORM", "Modes", "bimodality", "binned", "cumulative", "modes", "quantiles"]

CURVE = tuple(step / 100 for step in range(101))
"""The ratios at which a cumulative share is given."""
BINS = 20
"""Bins that modes and the valley between them are looked for in, 0.05 wide."""
UNIFORM = 5 / 9
"""Sarle's coefficient of a uniform distribution; two humps have more, one hump less."""
FEWEST = 4
"""Sarle's coefficient has no meaning for fewer values."""


@dataclass(frozen=True)
class Modes:
    """The two highest humps of each distribution, one value per row; NaN where there is only one hump.

    Attributes:
        depth: how far the valley between them lies below the lesser one, as a share of that: 1 if it is empty.
        lower: the middle of the bin of the hump at lower ratios.
        upper: that of the other.
        valley: the middle of the lowest bin between them.
        lesser: the share of the values on the lesser hump's side of the valley's bin.
    """

    depth: Floats
    lower: Floats
    upper: Floats
    valley: Floats
    lesser: Floats


def quantiles(counts: Integers, at: Sequence[float]) -> Floats:
    """Quantiles of each row, interpolated linearly between ranks; NaN where it is empty.

    >>> quantiles(np.array([[1, 0, 1], [0, 0, 0]]), [0.0, 0.25, 1.0])
    array([[0.  , 0.25, 1.  ],
           [ nan,  nan,  nan]])
    """
    reached, last = np.cumsum(counts, axis=1), counts.shape[1] - 1
    ranks = np.maximum(reached[:, -1:] - 1, 0) * np.asarray(at)
    below = np.floor(ranks)
    here, there = (
        np.stack([np.searchsorted(row, place, side="right") for row, place in zip(reached, places, strict=True)])
        if len(counts)
        else np.zeros(ranks.shape)
        for places in (below, np.minimum(below + 1, np.maximum(reached[:, -1:] - 1, 0)))
    )
    found: Floats = (here + (there - here) * (ranks - below)) / last
    return np.where(reached[:, -1:] > 0, found, np.nan)


def cumulative(counts: Floats | Integers) -> Floats:
    """The share of each row's total up to every ratio of `CURVE`; NaN where it is empty.

    >>> cumulative(np.eye(201)[:1])[0, :2]
    array([1., 1.])
    """
    reached = np.cumsum(counts, axis=1, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        shares: Floats = reached[:, :: (counts.shape[1] - 1) // 100] / reached[:, -1:]
    return shares


def bimodality(counts: Integers) -> Floats:
    """Sarle's coefficient of each row: (skewness² + 1) / (kurtosis + 3(n-1)²/((n-2)(n-3))).

    Skewness and excess kurtosis are bias-corrected. Of many values it is 1 for two and nothing between, 5/9 for a uniform
    distribution, 1/3 for a normal one; NaN with fewer than 4 values, or where all are alike.

    >>> bimodality(np.array([[5_000, 0, 0, 0, 5_000], [0, 0, 9, 0, 0]])).round(4)
    array([0.9995,    nan])
    """
    values = np.linspace(0, 1, counts.shape[1])
    size = np.where((total := counts.sum(axis=1)) >= FEWEST, total, np.nan)
    centred = values - (counts @ values / size)[:, None]
    # Products: NumPy's third and fourth power of negative numbers take a hundred times as long.
    squared = centred * centred
    second, third, fourth = ((counts * power).sum(axis=1) / size for power in (squared, squared * centred, squared * squared))
    second = np.where(np.count_nonzero(counts, axis=1) > 1, second, np.nan)
    skewness = third / second**1.5 * np.sqrt(size * (size - 1)) / (size - 2)
    pairs = (size - 2) * (size - 3)
    kurtosis = ((size + 1) * (fourth / second**2 - 3) + 6) * (size - 1) / pairs
    found: Floats = (skewness**2 + 1) / (kurtosis + 3 * (size - 1) ** 2 / pairs)
    return found


def binned(counts: Integers) -> Integers:
    """The counts of each row in `BINS` bins of equal width, which start with their lower ends; the last holds 1 too.

    The number of steps is a multiple of `BINS`.

    >>> binned(np.eye(41, dtype=int)[:5]).argmax(axis=1)
    array([0, 0, 1, 1, 2])
    """
    return np.add.reduceat(counts, np.arange(BINS) * (counts.shape[1] // BINS), axis=1)


def modes(counts: Integers) -> Modes:
    """The humps of each row.

    The first is the fullest of `BINS` bins. The second is the bin that stands out most: that has most above the emptiest bin
    on the way to the first (its topographic prominence). Of equal ones the nearest counts, first at lower ratios.
    """
    bins = binned(counts).astype(np.float64)
    rows, first = np.arange(len(bins)), bins.argmax(axis=1) if len(bins) else np.zeros(0, np.int64)
    second, valley, best = first.copy(), first.copy(), np.zeros(len(bins))
    for side in (-1, 1):
        lowest = first.copy()
        for steps in range(1, BINS):
            at = first + side * steps
            inside = (at >= 0) & (at < BINS)
            at = np.clip(at, 0, BINS - 1)
            lowest = np.where(inside & (bins[rows, at] < bins[rows, lowest]), at, lowest)
            height = np.where(inside, bins[rows, at] - bins[rows, lowest], 0)
            better = height > best
            second, valley, best = (np.where(better, new, old) for new, old in ((at, second), (lowest, valley), (height, best)))
    return _described(bins, first, second, valley)


def _described(bins: Floats, first: Integers, second: Integers, valley: Integers) -> Modes:
    rows = np.arange(len(bins))
    found = first != second
    beyond = np.where((second < valley)[:, None], np.arange(BINS) < valley[:, None], np.arange(BINS) > valley[:, None])
    with np.errstate(invalid="ignore", divide="ignore"):
        depth = 1 - bins[rows, valley] / bins[rows, second]
        lesser = (bins * beyond).sum(axis=1) / bins.sum(axis=1)
    middles = ((place + 0.5) / BINS for place in (np.minimum(first, second), np.maximum(first, second), valley))
    return Modes(*(np.where(found, values, np.nan) for values in (depth, *middles, lesser)))
