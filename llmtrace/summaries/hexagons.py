"""Hexagons of one size that tile the plane of two positive integers, both on logarithmic scales.

Where they lie does not depend on the data, so those of all parts are the same. Their centres are the points of two rectangular
lattices, one between the points of the other, as in hexagonal binning (Carr et al., 1987): `PER_DECADE` to the decade across, and
upwards so many that a hexagon is regular where both decades are equally long. A point lies in the hexagon of the nearest centre.
Values are taken as the middles of their buckets (see `histogram`), to within a relative 2^-(BITS+1).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from llmtrace.summaries.histogram import bucket_starts

if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

__all__ = ["BITS", "PER_DECADE", "SIDE_BITS", "centres", "hexagon"]

PER_DECADE = 9
"""Centres of one lattice to the decade: 36 across four decades."""
BITS = 7
"""Significant bits of the buckets that values are taken in."""
SIDE_BITS = 9
"""A hexagon's number is two places side by side, each of so many bits."""

_BUCKETS = (64 - BITS) << BITS
_SQUEEZE = math.sqrt(3)


def _lattices(per_decade: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats]:
    """For each bucket the nearest place of either lattice, in half steps, and how far it is from that of the first, in steps."""
    edges = bucket_starts(np.arange(_BUCKETS), BITS)
    middles = edges + (np.append(edges[1:] - 1, np.iinfo(np.int64).max) - edges) / 2
    steps = np.log10(np.maximum(middles, 1)) * per_decade
    even = 2 * np.floor(steps + 0.5).astype(np.int64)
    return even, 2 * np.floor(steps).astype(np.int64) + 1, np.abs(steps - even / 2)


_EVEN_X, _ODD_X, _AWAY_X = _lattices(PER_DECADE)
_EVEN_Y, _ODD_Y, _AWAY_Y = _lattices(PER_DECADE / _SQUEEZE)


@njit(nogil=True, cache=True)
def hexagon(across: int, upwards: int) -> int:
    """The number of the hexagon that holds a point, for kernels.

    The nearest points of the two lattices are half a step apart in either direction, so what is x and y steps away from one is
    1/2 - x and 1/2 - y away from the other, and x² + 3·y² is the lesser square of a distance where x + 3·y < 1.

    Args:
        across: the bucket of one value, with `BITS`.
        upwards: that of the other.
    """
    if _AWAY_X[across] + 3.0 * _AWAY_Y[upwards] < 1.0:
        return (int(_EVEN_X[across]) << SIDE_BITS) + int(_EVEN_Y[upwards])
    return (int(_ODD_X[across]) << SIDE_BITS) + int(_ODD_Y[upwards])


def centres(hexagons: npt.NDArray[np.integer[Any]]) -> tuple[Floats, Floats]:
    """The values at the centres of hexagons, across and upwards.

    >>> from llmtrace.summaries.histogram import bucket_of
    >>> ten, thousand = bucket_of(10, BITS), bucket_of(1_000, BITS)
    >>> [float(value.round(3)[0]) for value in centres(np.array([hexagon(ten, thousand)]))]
    [11.365, 961.56]
    """
    across, upwards = hexagons >> SIDE_BITS, hexagons & ((1 << SIDE_BITS) - 1)
    return 10.0 ** (across / 2 / PER_DECADE), 10.0 ** (upwards / 2 * _SQUEEZE / PER_DECADE)
