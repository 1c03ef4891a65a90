"""Which use of a session, or a block, is the last one: known for a whole trace once it has been gone through, a bit a use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llmtrace.errors import InputError
from llmtrace.replay.kernels import kernel
from llmtrace.replay.route.memory import at_least

if TYPE_CHECKING:
    import numpy.typing as npt

    Ids = npt.NDArray[np.uint32]
    Integers = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]
    Bytes = npt.NDArray[np.uint8]

__all__ = ["NONE", "Lasts", "Previous", "check_not_fewer"]

NONE = -1
"""The use before the first one."""
_BITS = 8


class Previous:
    """The use before of each number, in lots; uses are counted from 0.

    >>> previous = Previous()
    >>> previous.add(np.array([0, 1, 0], np.uint32)), previous.add(np.array([1, 2], np.uint32))
    (array([-1, -1,  0]), array([ 1, -1]))
    """

    def __init__(self) -> None:
        """Nothing was used yet."""
        self._latest, self._uses = np.empty(0, np.int64), 0

    def add(self, numbers: Ids) -> Integers:
        """The position of the use before each of the next ones, `NONE` of the first."""
        self._latest = at_least(self._latest, int(numbers.max(initial=0)) + 1, NONE)
        before = np.empty(numbers.size, np.int64)
        _look_back(numbers, self._uses, self._latest, before)
        self._uses += numbers.size
        return before


class Lasts:
    """Whether each use is the last one, once it is known of every use which one was before it.

    >>> lasts = Lasts()
    >>> lasts.add(np.array([-1, -1, 0])), lasts.add(np.array([1, -1]))
    (None, None)
    >>> lasts.of(0, 3), lasts.of(3, 5)
    (array([False, False,  True]), array([ True,  True]))
    """

    def __init__(self) -> None:
        """Know no use."""
        self._goes_on, self._uses = np.zeros(0, np.uint8), 0

    def add(self, before: Integers) -> None:
        """Take in which use was before each of the next ones, `NONE` if none was."""
        self._uses += before.size
        self._goes_on = at_least(self._goes_on, -(-self._uses // _BITS))
        _mark(self._goes_on, before)

    def of(self, start: int, stop: int) -> Flags:
        """Whether the uses from `start` to before `stop` are last ones.

        Raises:
            InputError: if there were not so many.
        """
        if stop > self._uses:
            raise _changed("more")
        first = start // _BITS
        bits = np.unpackbits(self._goes_on[first : -(-stop // _BITS)], bitorder="little")
        is_last: Flags = bits[start - first * _BITS : stop - first * _BITS] == 0
        return is_last


def check_not_fewer(requests: int, before: int) -> None:
    """Check that a trace has as many requests as before.

    Raises:
        InputError: if it has fewer.
    """
    if requests < before:
        raise _changed("fewer")


def _changed(how: str) -> InputError:
    return InputError(
        f"The trace has {how} requests than when it was first gone through", "Route a trace that nothing is written to."
    )


@kernel
def _look_back(numbers: Ids, uses: int, latest: Integers, before: Integers) -> None:
    for use in range(numbers.size):
        before[use] = latest[numbers[use]]
        latest[numbers[use]] = uses + use


@kernel
def _mark(goes_on: Bytes, before: Integers) -> None:
    for use in before:
        if use != NONE:
            goes_on[use >> 3] |= np.uint8(1 << (use & 7))
