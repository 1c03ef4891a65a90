"""Many cells at once: they share the slabs and nothing else."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING

from llmtrace.errors import InputError
from llmtrace.replay.cache.room import GIB, memory_bytes
from llmtrace.replay.route.cell import Running
from llmtrace.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llmtrace.replay.route.cell import Cell, Outcome
    from llmtrace.replay.route.stream import Extent, Stream

__all__ = ["Grid"]


class Grid:
    """Replays of cells that go through a trace together.

    Args:
        cells: what to replay.
        extent: of the trace.
        block_tokens: tokens of a block, for caches of blocks.
        threads: cells replayed at once; the number of processors by default.
    """

    def __init__(
        self, cells: Sequence[Cell], extent: Extent, block_tokens: int | None = None, *, threads: int | None = None
    ) -> None:
        """Begin with empty caches."""
        self._running = [Running(cell, extent, block_tokens) for cell in cells]
        self._total, self._done, self._guard = len(cells) * extent.requests, 0, Lock()
        self._threads = threads or os.cpu_count() or 1

    def advance(self, stream: Stream, progress: Callable[[int, int], None] | None = None) -> None:
        """Replay the next slab.

        Args:
            stream: the slab.
            progress: called with the requests replayed so far, over all cells, and in total, from one thread at a time; what it
                raises ends all replays.

        Raises:
            InputError: if what the cells hold is more than memory has room for.
        """

        def told(requests: int) -> None:
            with self._guard:
                self._done += requests
                if progress is not None:
                    progress(self._done, self._total)

        with ThreadPoolExecutor(self._threads, thread_name_prefix="llmtrace-cell") as pool:
            begun = [pool.submit(one.advance, stream, told) for one in self._running]
            try:
                for future in begun:
                    future.result()
            finally:
                pool.shutdown(cancel_futures=True)
        self._check_room()

    def _check_room(self) -> None:
        held, memory = sum(one.held_bytes for one in self._running), memory_bytes()
        if memory is not None and held > memory:
            raise InputError(
                f"The caches of {counted(len(self._running), 'cell')} take {held / GIB:.1f} GiB by now, and there are "
                f"{memory / GIB:.1f} GiB of memory",
                "Route with fewer policies, instances or capacities at once, or a part of the trace, with --since and --until "
                "or with --model.",
            )

    def outcomes(self) -> list[Outcome]:
        """The outcomes of the cells, in their order, after the last slab."""
        return [one.outcome() for one in self._running]
