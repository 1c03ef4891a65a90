"""Whether user ids were made anew: moments over which next to no id is seen both before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

__all__ = ["turnovers"]

FEWEST = 20
"""Users that are seen again on either side of a moment, for it to say anything."""
SPANNING = 0.001
"""As large a part of the smaller side may be seen on both sides."""
USUAL = 10
"""So many users at least are seen both before and after some other moment on either side: that is how ids behave that stay."""


def turnovers(first_us: Integers, last_us: Integers) -> Integers:
    """The moments at which all users go and others come.

    Only users that are seen at two times tell anything. Such a moment has at least 20 of them before it and after it, next to
    none across, and elsewhere, on both sides of it, moments with 10 or more across.

    Args:
        first_us: the first request of each user, in microseconds since 1970.
        last_us: its last one.

    Returns:
        The first request after each such moment, ascending.
    """
    lasting = last_us > first_us
    first, last = np.sort(first_us[lasting]), np.sort(last_us[lasting])
    before = np.arange(first.size)
    across = before - np.searchsorted(last, first)
    allowed = np.floor(SPANNING * np.minimum(before, first.size - before))
    found = (across <= allowed) & (np.minimum(before, first.size - before) >= FEWEST)
    peak_before = np.maximum.accumulate(across) if first.size else across
    peak_after = np.maximum.accumulate(across[::-1])[::-1] if first.size else across
    found &= np.minimum(peak_before, peak_after) >= USUAL
    begins: Integers = first[found & ~np.append(False, found[:-1])]
    return begins
