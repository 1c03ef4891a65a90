"""Memory that a thread works with again and again: to get it from the system anew costs more than to work with it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Room"]


class Room(threading.local):
    """Arrays of any content, of each thread its own, by name. Whoever asks for one by the same name again is given the same.

    >>> room = Room()
    >>> room.array("ids", 3, np.uint32)[:] = 7
    >>> room.array("ids", 2, np.uint32)
    array([7, 7], dtype=uint32)
    """

    def __init__(self) -> None:
        """Have none yet."""
        self._arrays: dict[str, npt.NDArray[Any]] = {}

    def array(self, name: str, shape: int | tuple[int, int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """The array of that name, which always has the same type and, but for its length, shape."""
        rows = shape if isinstance(shape, int) else shape[0]
        if name not in self._arrays or len(self._arrays[name]) < rows:
            self._arrays[name] = np.empty(shape, dtype)
        return self._arrays[name][:rows]

    def size(self, name: str) -> int:
        """How long the array of that name is; 0 if there is none yet."""
        return len(self._arrays.get(name, ()))
