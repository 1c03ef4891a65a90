"""Memory that a thread works with again and again: to get it from the system anew costs more than to work with it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Room"]


class Room(threading.local):
    """Arrays, of each thread its own, by name and type. Whoever asks for one by the same name again is given the same.

    >>> room = Room()
    >>> room.array("ids", 3, np.uint32)[:] = 7
    >>> room.array("ids", 2, np.uint32)
    array([7, 7], dtype=uint32)
    """

    def __init__(self) -> None:
        """Have none yet."""
        self._arrays: dict[tuple[str, np.dtype[Any]], npt.NDArray[Any]] = {}

    def array(self, name: str, shape: int | tuple[int, int], dtype: npt.DTypeLike, *, new: int | None = None) -> npt.NDArray[Any]:
        """The array of that name and type, made anew only where it is too short; but for its length, its shape stays the same.

        Args:
            name: what it is for.
            shape: its shape.
            dtype: its type.
            new: what one holds that is made now; without it, anything.
        """
        rows, key = shape if isinstance(shape, int) else shape[0], (name, np.dtype(dtype))
        if key not in self._arrays or len(self._arrays[key]) < rows:
            self._arrays[key] = np.empty(shape, dtype) if new is None else np.full(shape, new, dtype)
        return self._arrays[key][:rows]
