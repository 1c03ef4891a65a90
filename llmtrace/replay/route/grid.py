"""Many cells at once: they share the stream and nothing else."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, as_completed
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
        progress: called with the requests replayed so far, over all cells, and in total, from the calling thread.
    """
    tell = progress or _keep_quiet
    with ThreadPoolExecutor(threads or os.cpu_count() or 1, thread_name_prefix="llmtrace-cell") as pool:
        begun = [pool.submit(run, stream, cell, prompts) for cell in cells]
        try:
            for done, _ in enumerate(as_completed(begun), 1):
                tell(done * len(stream.requests), len(cells) * len(stream.requests))
        finally:
            pool.shutdown(cancel_futures=True)
        return [future.result() for future in begun]


def _keep_quiet(_done: int, _total: int) -> None:
    pass
