"""Failures inside Polars, as errors that name the damaged source or the filter that does not fit."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import polars as pl

from llmtrace.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llmtrace.trace.part import Opened, Part

__all__ = ["applied", "bounded", "told"]


@contextmanager
def told(opened: Sequence[Opened]) -> Iterator[None]:
    """Turn a failure of Polars into an error that names the damaged source, if there is one.

    Raises:
        InputError: if one of the sources cannot be read to its end.
    """
    try:
        yield
    except (pl.exceptions.PolarsError, OSError):
        for entry in opened:
            _read_whole(entry)
        raise


@contextmanager
def applied(part: Part) -> Iterator[None]:
    """Turn a failure of Polars into one of the predicate of a part, if it has one: what it asks for does not fit a value.

    Raises:
        UsageError: if there is a predicate, and something fails.
    """
    try:
        yield
    except pl.exceptions.PolarsError as error:
        if part.predicate is None:
            raise
        raise UsageError(
            f"--where cannot be applied: {str(error).strip().splitlines()[0]}",
            "Give a predicate that fits every request: TRY_CAST, for one, is null where CAST fails.",
        ) from None


def bounded(part: Part, frame: pl.DataFrame) -> None:
    """Check that the requests of a part are of its interval, as the statistics of its sources promise.

    Args:
        part: the part.
        frame: its requests, in order of time.

    Raises:
        InputError: if one is not: its source is damaged where no reader notices.
    """
    times_us = frame["timestamp"].to_physical()
    start, end = part.interval.edges_us
    # Numbers, since a rotten time may be of a year that Python does not know.
    if times_us.null_count() or (times_us.len() and not start <= times_us[0] <= times_us[-1] < end):
        names = ", ".join(entry.source.name for entry in part.opened)
        raise InputError(
            f"{names}: there are times beyond those that the file's own statistics give",
            "The file is damaged, or was written wrongly; write it anew, or take it from where it came.",
        )


def _read_whole(opened: Opened) -> None:
    try:
        opened.source.scan().select(pl.all().null_count()).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise opened.source.damaged(error) from None
