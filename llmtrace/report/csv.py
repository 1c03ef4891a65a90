"""CSV: one table, a header of its column names, nothing rounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmtrace.report.cells import text_frame

if TYPE_CHECKING:
    import polars as pl

__all__ = ["dumps"]


def dumps(table: pl.DataFrame) -> str:
    """The table as CSV: an empty cell is null, `""` an empty text, a list or struct its JSON text (see `llmtrace.report.cells`).

    >>> import polars as pl
    >>> print(dumps(pl.DataFrame({"model": ["a", None], "stream_ratio": [0.1 + 0.2, None]})), end="")
    model,stream_ratio
    a,0.30000000000000004
    ,
    """
    return text_frame(table).write_csv()
