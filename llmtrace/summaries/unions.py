"""Ascending sets of keys brought together, for summaries that know the same keys."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from llmtrace.summaries.cells import frozen
from llmtrace.summaries.gaps import align

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Keys = npt.NDArray[np.uint64]
    Places = npt.NDArray[np.uint32]

__all__ = ["Union", "unite"]


@dataclass(frozen=True)
class Union:
    """The keys of several sets.

    Attributes:
        keys: ascending.
        places: per set the place of each of its keys.
    """

    keys: Keys
    places: list[Places]


def unite(sets: Sequence[Keys]) -> Union:
    """The union of ascending sets.

    >>> union = unite([np.array([3, 5], np.uint64), np.array([5, 9], np.uint64)])
    >>> union.keys.tolist(), [one.tolist() for one in union.places]
    ([3, 5, 9], [[0, 1], [1, 2]])
    """
    keys = reduce(_together, sets)
    return Union(keys, [_places(keys, one) for one in sets])


def _together(left: Keys, right: Keys) -> Keys:
    return align(*frozen(left, right))[0]


def _places(union: Keys, keys: Keys) -> Places:
    _, _, rows = align(*frozen(union, keys))
    return np.flatnonzero(rows >= 0).astype(np.uint32)
