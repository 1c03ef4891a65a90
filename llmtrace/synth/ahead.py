"""Ahead: what comes next is made on a thread of its own while the last is put to use."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["ahead"]

T = TypeVar("T")


def ahead(items: Generator[T], most: int = 1) -> Generator[T]:
    """The items, none of them None, in their order; up to `most` of them are made before they are asked for.

    Closed, it lets the one that is in the making be finished, and closes `items`.

    >>> list(ahead((number * number for number in range(4)), most=2))
    [0, 1, 4, 9]
    """
    with closing(items), ThreadPoolExecutor(max_workers=1) as other:
        coming = deque(other.submit(next, items, None) for _ in range(most))
        try:
            while (item := coming.popleft().result()) is not None:
                coming.append(other.submit(next, items, None))
                yield item
        finally:
            other.shutdown(wait=False, cancel_futures=True)
