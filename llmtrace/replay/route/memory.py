"""Arrays that grow with what lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["at_least"]

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
