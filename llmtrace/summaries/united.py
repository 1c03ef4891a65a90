"""Sets of keys brought together."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from llmtrace.summaries.cells import frozen
from llmtrace.summaries.gaps import align

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from llmtrace.summaries.groups import Keys

Union: TypeAlias = "tuple[Keys, list[npt.NDArray[np.uint32]]]"

__all__ = ["Unions"]


@dataclass
class Unions:
    """Unions of ascending sets of keys, each made once: what knows the same users often knows them in several tables."""

    _made: list[tuple[Sequence[Keys], Union]] = field(default_factory=list)

    def of(self, sets: Sequence[Keys]) -> Union:
        """The union of sets, ascending, and for each set the place of its keys in it.

        >>> union, places = Unions().of([np.array([3, 5], np.uint64), np.array([5, 9], np.uint64)])
        >>> union.tolist(), [one.tolist() for one in places]
        ([3, 5, 9], [[0, 1], [1, 2]])
        """
        for known, union in self._made:
            if len(known) == len(sets) and all(map(np.array_equal, known, sets)):
                return union
        keys = reduce(_together, sets)
        union = keys, [_places(keys, one) for one in sets]
        self._made.append((sets, union))
        return union


def _together(left: Keys, right: Keys) -> Keys:
    left, right = frozen(left, right)
    return align(left, right)[0]


def _places(union: Keys, keys: Keys) -> npt.NDArray[np.uint32]:
    union, keys = frozen(union, keys)
    _, _, rows = align(union, keys)
    return np.flatnonzero(rows >= 0).astype(np.uint32)
