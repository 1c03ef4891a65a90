"""Damage: a source that opens well and fails when it is read is the user's problem, told as one, not ours."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llmtrace.trace.part import Opened

__all__ = ["told"]


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


def _read_whole(opened: Opened) -> None:
    try:
        opened.source.scan().select(pl.all().null_count()).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise opened.source.damaged(error) from None
