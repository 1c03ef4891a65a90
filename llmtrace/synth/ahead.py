"""Ahead: what comes next is made on a thread of its own while the last is put to use.

Kernels run on such threads alone. Python tells the main thread of Ctrl-C, and there an interruption is lost if it comes while a
kernel is loaded.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

__all__ = ["ahead", "aside", "beside"]

T = TypeVar("T")
Given = TypeVar("Given")


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


def beside(work: Callable[[Given], T], items: Iterable[Given]) -> Generator[T]:
    """What the work makes of each item, one of them in the making while the last is put to use.

    >>> list(beside(str, range(3)))
    ['0', '1', '2']
    """
    with ThreadPoolExecutor(max_workers=1) as other:
        coming = deque[Future[T]]()
        for item in items:
            coming.append(other.submit(work, item))
            if len(coming) > 1:
                yield coming.popleft().result()
        yield from (one.result() for one in coming)


def aside(work: Callable[[Given], T], item: Given) -> T:
    """What the work makes of one item."""
    with ThreadPoolExecutor(max_workers=1) as other:
        return other.submit(work, item).result()
