"""Reading the side tables of a trace, which are small, whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from llmtrace.trace.side_tables import SideTable

__all__ = ["read"]


def read(table: SideTable) -> pl.DataFrame:
    """The rows of a side table.

    Raises:
        InputError: if its file is damaged.
    """
    try:
        return table.rows.collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise table.source.damaged(error) from None
