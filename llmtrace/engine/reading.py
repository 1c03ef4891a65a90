"""Reading a part, and the parts of a trace one after the other while others are read ahead."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from llmtrace.engine.damage import applied, bounded, told

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Sequence
    from concurrent.futures import Future, ThreadPoolExecutor

    import polars as pl

    from llmtrace.trace import Part

__all__ = ["Progress", "ahead", "read"]

Progress: TypeAlias = "Callable[[int, int], None]"
"""Takes the rows done and the rows in total."""
_Outcome = TypeVar("_Outcome")
_FEW_ROWS = 1 << 14
"""Chunks of fewer rows cost more than to put them together."""


def read(part: Part, columns: Collection[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The requests of a part with these canonical columns, in order of time, and the counts of what was read.

    Raises:
        InputError: if a source is damaged.
        UsageError: if a predicate does not fit a value.
    """
    with told(part.opened):
        raw = part.read(columns).collect().lazy()
    # Flags of so few rows are added up sooner than they are handed to other threads.
    counts = part.count(raw, columns).collect(engine="in-memory")
    with applied(part):
        frame = _joined(part.keep(raw, columns, within_input=not counts["cached_above_input"].item()).collect())
    bounded(part, frame)
    return frame, counts


def _joined(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows in fewer chunks, if these are of few rows, as those of many small files are."""
    return frame.rechunk() if frame.n_chunks() * _FEW_ROWS > frame.height else frame


def ahead(
    pool: ThreadPoolExecutor, work: Callable[[Part], _Outcome], parts: Sequence[Part], begun: int
) -> Generator[tuple[Part, _Outcome]]:
    """The parts in order, each with what `work` makes of it on a thread of the pool.

    At most `begun` parts are begun and not yet taken, so that what they hold is bounded.
    """
    waiting: deque[tuple[Part, Future[_Outcome]]] = deque()
    try:
        for part in parts:
            waiting.append((part, pool.submit(work, part)))
            if len(waiting) >= begun:
                first, future = waiting.popleft()
                yield first, future.result()
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()
    finally:
        for _, future in waiting:
            future.cancel()
