"""Requests with their sessions, as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from llmtrace.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Collection

    from llmtrace.replay.sessions.requests import Turns

__all__ = ["with_sessions"]


def with_sessions(frame: pl.DataFrame, turns: Turns, columns: Collection[str], *, named: bool = False) -> pl.DataFrame:
    """Requests in canonical columns, with `session` and `turn` in their places and `prefix_tokens` at the end.

    Args:
        frame: requests.
        turns: theirs.
        columns: canonical columns of the frame to keep.
        named: keep the sessions' own names instead of numbering them, as `s0`, `s1` and so on.

    >>> import numpy as np
    >>> from llmtrace.replay.sessions import Turns
    >>> turns = Turns(*np.array([[0, -1], [0, -1], [0, 0], [-1, -1]]), np.zeros(0, np.uint64))
    >>> with_sessions(pl.DataFrame({"user": ["a", None]}), turns, ["user"]).rows()
    [('a', 's0', 0, 0), (None, None, None, None)]
    """
    known = pl.col("found") >= 0
    found = pl.DataFrame({"found": turns.session, "turn": turns.turn, "prefix_tokens": turns.prefix_tokens})
    kept = [name for name in COLUMNS if name in columns and name not in {"turn", *(() if named else ("session",))}]
    whole = frame.select(kept).hstack(found)
    session = [] if named else [pl.when(known).then(pl.format("s{}", "found")).alias("session")]
    told = whole.with_columns(*session, *(pl.when(known).then(name).alias(name) for name in ("turn", "prefix_tokens")))
    return told.select(*(name for name in COLUMNS if name in told.columns), "prefix_tokens")
