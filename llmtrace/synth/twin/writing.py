"""Writing: a twin to its destination, all of it or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmtrace.errors import UsageError
from llmtrace.synth.twin.frames import DEFAULT_BLOCK, frames
from llmtrace.trace.store import Footer, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from llmtrace.synth.twin.portrait import Portrait
    from llmtrace.synth.writing import Partition

__all__ = ["write"]

_MANY_ROWS_A_DAY = 100_000
_DAY_US = 86_400_000_000


def write(
    portrait: Portrait,
    destination: Path,
    original: Footer,
    *,
    requests: int | None = None,
    seed: int = 1,
    partition: Partition = "auto",
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write a twin into `destination`, as many requests as the original has unless told otherwise.

    Args:
        portrait: what it is drawn from.
        destination: a folder to make (one file if its name ends in `.parquet`).
        original: what the files of the original say of themselves.
        requests: requests of the twin; in the same time, so that rates grow with them.
        seed: which of the many twins.
        partition: a folder per day, per month, or none; `auto` is days from 100,000 requests a day on.
        force: replace what stands there, if it is a trace.
        progress: called with the requests written so far and in total.

    Returns:
        How many requests were written: none if the original has none.

    Raises:
        UsageError: if `requests` or `seed` is out of range.
        OutputError: if the destination is in the way or cannot be written.
    """
    for option, value, least in (("--requests", requests, 1), ("--seed", seed, 0)):
        if value is not None and value < least:
            raise UsageError(f"{option} {value}: out of range", f"Give a number from {least} on.")
    wanted = (requests or portrait.requests) if portrait.requests else 0
    by_day = wanted * _DAY_US >= _MANY_ROWS_A_DAY * (portrait.grid.end_us - portrait.grid.start_us)
    chosen = ("day" if by_day else "month") if partition == "auto" else partition
    blocks = (original.block_size or DEFAULT_BLOCK) if "block_hashes" in portrait.columns else None
    with Store(destination, chosen, Footer(original.clock, blocks, synthetic=True), force=force) as store:
        for frame in frames(portrait, wanted, seed, blocks or DEFAULT_BLOCK):
            if frame.height or not wanted:
                store.append(frame)
            if progress is not None:
                progress(store.rows, wanted)
    return store.rows
