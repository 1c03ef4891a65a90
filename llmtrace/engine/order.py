"""Order: how many rows of a trace's files are earlier than the row before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from llmtrace.engine.damage import told
from llmtrace.trace.part import canonical

if TYPE_CHECKING:
    from llmtrace.trace import Trace

__all__ = ["out_of_order_rows"]


def out_of_order_rows(trace: Trace) -> int:
    """Rows earlier than the row before them in their own file; filters do not count, and only the times are read.

    A replay that takes such a file as it lies is wrong without a sign of it: a gateway's newest-first export, for one.
    """
    time = pl.col("timestamp")
    rows = 0
    for opened in trace.opened:
        times = canonical(opened.source.scan(), opened.reading, ["timestamp"]).filter(time.is_not_null())
        with told([opened]):
            rows += times.select((time < time.shift()).sum().cast(pl.Int64)).collect().item()
    return rows
