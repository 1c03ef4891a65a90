"""Arrays that grow with what lives, and how much they take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from llmtrace.replay.route.copies import Copies, taken_bytes

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["at_least", "held_bytes"]

_Array = TypeVar("_Array", bound="npt.NDArray[Any]")


def at_least(array: _Array, rows: int, fill: int = 0) -> _Array:
    """An array with so many rows at least: itself, or a copy that is longer by a half, with `fill` behind.

    >>> at_least(np.array([3, 4]), 3, -1)
    array([ 3,  4, -1])
    """
    if array.shape[0] >= rows:
        return array
    longer = np.empty((max(rows, array.shape[0] * 3 // 2), *array.shape[1:]), array.dtype)
    longer[: array.shape[0]] = array
    longer[array.shape[0] :] = fill
    return longer  # type: ignore[return-value]


def held_bytes(state: object) -> int:
    """Bytes of all arrays of a state, those of its parts included; of rows that were never taken none.

    >>> held_bytes((np.zeros(3), (np.zeros(2, np.int32), 7)))
    32
    """
    if isinstance(state, np.ndarray):
        return state.nbytes
    if isinstance(state, Copies):
        return taken_bytes(state)
    return sum(map(held_bytes, state)) if isinstance(state, tuple) else 0
