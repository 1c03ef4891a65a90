"""Convert: any readable trace to canonical Parquet, sorted and partitioned, part by part."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from llmtrace.engine.damage import told
from llmtrace.engine.ordered import in_order
from llmtrace.errors import UsageError
from llmtrace.trace import MAX_TEXT_ROWS, open_trace
from llmtrace.trace.part import canonical
from llmtrace.trace.store import Footer, Store, hidden_folder, refuse_existing

if TYPE_CHECKING:
    from collections.abc import Callable

    from llmtrace.engine.intake import Intake
    from llmtrace.trace import Trace
    from llmtrace.trace.store import Partition

__all__ = ["convert", "footer_of", "partition_of", "refuse_itself"]


def convert(
    trace: Trace,
    destination: Path,
    partition: Partition,
    *,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Intake:
    """Write the requests that the trace's filters let through to `destination`; memory is bounded by a part.

    Args:
        trace: what to read.
        destination: the folder to make, or a file if its name ends in `.parquet`.
        partition: one folder per day, per month, or none.
        force: replace a trace that stands there.
        progress: called with the rows read so far and the rows in total.

    Returns:
        What was read and what could not be.

    Raises:
        UsageError: if the destination is one of the sources.
        OutputError: if the destination is in the way or cannot be written.
        InputError: if a source cannot be read.
    """
    refuse_itself(trace, destination)
    refuse_existing(destination, force=force)
    if not any(_long_text(trace, index) for index in range(len(trace.opened))):
        return _write(trace, destination, partition, force=force, progress=progress)
    destination.parent.mkdir(parents=True, exist_ok=True)
    with hidden_folder(destination, "staged") as folder:
        staged = _stage(trace, folder)
        return _write(staged, destination, partition, force=force, progress=progress)


def _write(
    trace: Trace, destination: Path, partition: Partition, *, force: bool, progress: Callable[[int, int], None] | None
) -> Intake:
    ordered = in_order(trace, trace.columns, progress=progress, whole_names=True)
    with Store(destination, partition, footer_of(ordered.trace), force=force) as store:
        for frame in ordered:
            store.append(frame)
    return ordered.intake


def footer_of(trace: Trace) -> Footer:
    """What files say of themselves that hold the trace's requests."""
    return Footer(trace.clock, trace.block_size, trace.synthetic)


def partition_of(trace: Trace) -> Partition:
    """How the trace's sources are partitioned: by the first of our keys that all of their folders have."""
    folders = [opened.source.hive for opened in trace.opened]
    found: dict[str, Partition] = {"month": "month", "date": "day", "day": "day"}
    return next((partition for key, partition in found.items() if all(key in hive for hive in folders)), "none")


def refuse_itself(trace: Trace, destination: Path) -> None:
    """Raise if the destination is a source of the trace, is in one or holds one.

    Raises:
        UsageError: naming the destination.
    """
    target = Path(os.path.realpath(destination))
    for opened in trace.opened:
        path = Path(os.path.realpath(opened.source.path))
        if path == target or target in path.parents or path in target.parents:
            raise UsageError(f"{destination} is the source itself", "Give a destination beside it.")


def _long_text(trace: Trace, index: int) -> bool:
    source = trace.opened[index].source
    return source.kind != "parquet" and (source.estimated_rows() or 0) > MAX_TEXT_ROWS


def _stage(trace: Trace, folder: Path) -> Trace:
    """The trace as canonical Parquet in the sources' own order, streamed, so that it has statistics to be cut by."""
    for index, opened in enumerate(trace.opened):
        frame = canonical(opened.source.scan(), opened.reading, trace.columns)
        with told([opened]):
            frame.sink_parquet(folder / f"{index:05}.parquet", row_group_size=500_000, metadata=footer_of(trace).metadata())
    staged = open_trace(str(folder), filters=trace.filters, strict=trace.strict)
    return replace(staged, names=trace.names)
