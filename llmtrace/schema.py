"""The canonical request table: one row is one request.

`COLUMNS` is the single list of canonical columns with dtype, unit and meaning; every format maps onto it and every analysis
reads it. Only `timestamp`, `input_tokens` and `output_tokens` must be there; null means "not logged", which is never zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from llmtrace.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "COLUMNS",
    "METADATA_BLOCK_SIZE",
    "METADATA_CLOCK",
    "METADATA_SCHEMA",
    "METADATA_SYNTHETIC",
    "REQUIRED",
    "SCHEMA_VERSION",
    "TIMESTAMP",
    "Column",
    "check",
    "failed",
    "problems",
    "streamed",
    "succeeded",
]

TIMESTAMP = pl.Datetime("us")
SCHEMA_VERSION = "1"
METADATA_SCHEMA = "llmtrace.schema"
"""Parquet metadata key: the version of this table that a file follows."""
METADATA_CLOCK = "llmtrace.clock"
"""Parquet metadata key: `utc` or `relative`."""
METADATA_BLOCK_SIZE = "llmtrace.block_size"
"""Parquet metadata key: tokens per prefix block."""
METADATA_SYNTHETIC = "llmtrace.synthetic"
"""Parquet metadata key, there and `true` in traces that were generated: nobody sent these requests."""


@dataclass(frozen=True)
class Column:
    """One canonical column: its dtypes (the first is the one we write), unit and meaning."""

    name: str
    dtypes: tuple[pl.DataType, ...]
    unit: str
    meaning: str

    @property
    def dtype(self) -> pl.DataType:
        """The dtype that a frame in canonical form has, unless the source's is another allowed one."""
        return self.dtypes[0]


def _column(name: str, dtype: pl.DataType | type[pl.DataType], unit: str, meaning: str, *others: pl.DataType) -> Column:
    first = dtype if isinstance(dtype, pl.DataType) else dtype()
    return Column(name, (first, *others), unit, meaning)


COLUMNS: Mapping[str, Column] = {
    column.name: column
    for column in (
        _column("timestamp", TIMESTAMP, "us", "arrival: UTC, or elapsed time on a relative clock"),
        _column("input_tokens", pl.Int64, "tokens", "prompt tokens, cached ones included"),
        _column("output_tokens", pl.Int64, "tokens", "generated tokens"),
        _column("request_id", pl.String, "", "breaks ties in time, else file order does", pl.Int64()),
        _column("user", pl.String, "", "who asked: an account, a key, a tenant"),
        _column("model", pl.String, "", "the model that was asked"),
        _column("instance", pl.String, "", "the replica that served the request"),
        _column("endpoint", pl.String, "", "the kind of call: chat, completion, ..."),
        _column("session", pl.String, "", "the conversation"),
        _column("turn", pl.Int32, "", "position in the session, from 0"),
        _column("stream", pl.Boolean, "", "whether the answer was streamed"),
        _column("cached_tokens", pl.Int64, "tokens", "prefix tokens served from cache; null is not logged, never 0"),
        _column("ttft_s", pl.Float64, "s", "time to first token"),
        _column("duration_s", pl.Float64, "s", "arrival to last token"),
        _column("status", pl.String, "", '"ok" or an error word'),
        _column("block_hashes", pl.List(pl.UInt64), "", "chained prefix blocks, first to last"),
    )
}
REQUIRED = ("timestamp", "input_tokens", "output_tokens")


def failed() -> pl.Expr:
    """True for a failed request; an unknown status counts as success.

    >>> pl.DataFrame({"status": ["ok", "timeout", None]}).select(failed()).to_series().to_list()
    [False, True, False]
    """
    return pl.col("status").ne("ok").fill_null(value=False)


def succeeded() -> pl.Expr:
    """True for a request that did not fail: the rows whose tokens and latencies count."""
    return ~failed()


def streamed() -> pl.Expr:
    """True for a request that is not known not to have streamed: the TTFT of one that did not is its duration by another name."""
    return pl.col("stream").fill_null(value=True)


def problems(schema: Mapping[str, pl.DataType]) -> list[str]:
    """Everything that keeps a schema from being canonical: missing required columns and wrong dtypes, all at once.

    >>> problems({"timestamp": TIMESTAMP, "input_tokens": pl.String()})
    ["'input_tokens' is String, not Int64", "'output_tokens' is missing"]
    """
    wrong = [
        f"'{name}' is {dtype}, not {' or '.join(map(str, COLUMNS[name].dtypes))}"
        for name, dtype in schema.items()
        if name in COLUMNS and dtype not in COLUMNS[name].dtypes
    ]
    return wrong + [f"'{name}' is missing" for name in REQUIRED if name not in schema]


def check(schema: Mapping[str, pl.DataType], source: str) -> None:
    """Raise one InputError that lists every problem of a schema that should be canonical.

    Raises:
        InputError: if a required column is missing or a canonical column has another dtype.
    """
    found = problems(schema)
    if found:
        raise InputError(
            f"{source} is not a canonical trace: {'; '.join(found)}",
            "Name the source columns with --map CANONICAL=COLUMN, or the layout with --from FORMAT.",
        )
