"""Work on a thread of its own, beside the one that waits for it.

Python tells the main thread of Ctrl-C. If that is inside a compiled function then, the function returns into an error that it
does not expect, and can take the program down with it; where compiled code calls Python, the interruption is lost. So the main
thread waits, where it can be interrupted, and the work is elsewhere.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["Aside", "Stopped"]

Parameters = ParamSpec("Parameters")
Outcome = TypeVar("Outcome")


class Stopped(Exception):  # noqa: N818 - nothing went wrong
    """Raised in work that nobody waits for any more."""


class Aside:
    """A thread for one piece of work after the other, to be used as a context.

    >>> with Aside() as aside:
    ...     aside.run(sum, [1, 2])
    3
    """

    def __init__(self) -> None:
        """Begin with nothing to do."""
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="llmtrace-aside")
        self._is_over = Event()

    def __enter__(self) -> Self:
        """The thread."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Wait until the work has stopped."""
        self._is_over.set()
        self._pool.shutdown(cancel_futures=True)

    def begin(self, work: Callable[[], None]) -> None:
        """Do some work there, before any other that comes later, without waiting for it; nobody is told if it fails."""
        self._pool.submit(work)

    def run(self, work: Callable[Parameters, Outcome], *args: Parameters.args, **kwargs: Parameters.kwargs) -> Outcome:
        """Do some work there, and wait for it: what it gives or raises."""
        return self._pool.submit(work, *args, **kwargs).result()

    def watched(self, progress: Callable[[int, int], None] | None) -> Callable[[int, int], None]:
        """A callback for work to tell how far it is, which stops it there once the context has been left.

        Args:
            progress: called with what it is told, on the thread of the work.
        """

        def tell(done: int, total: int) -> None:
            if self._is_over.is_set():
                raise Stopped
            if progress is not None:
                progress(done, total)

        return tell
