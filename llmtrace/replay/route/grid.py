"""Many cells at once: they share the stream and nothing else."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING

from llmtrace.replay.route.cell import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llmtrace.replay.route.blocks import Prompts
    from llmtrace.replay.route.cell import Cell, Outcome
    from llmtrace.replay.route.stream import Stream

__all__ = ["run_all"]


def run_all(
    stream: Stream,
    cells: Sequence[Cell],
    prompts: Prompts | None = None,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Outcome]:
    """The outcomes of cells, in their order.

    Args:
        stream: the requests.
        cells: what to replay.
        prompts: the blocks of each prompt, for caches of blocks.
        threads: cells replayed at once; the number of processors by default.
        progress: called with the requests replayed so far, over all cells, and in total, from one thread at a time; what it
            raises ends all replays.
    """
    total = len(cells) * len(stream.requests)
    done, guard = 0, Lock()

    def told(requests: int) -> None:
        nonlocal done
        with guard:
            done += requests
            if progress is not None:
                progress(done, total)

    with ThreadPoolExecutor(threads or os.cpu_count() or 1, thread_name_prefix="llmtrace-cell") as pool:
        begun = [pool.submit(run, stream, cell, prompts, told) for cell in cells]
        try:
            return [future.result() for future in begun]
        finally:
            pool.shutdown(cancel_futures=True)
