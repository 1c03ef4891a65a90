"""Aggregates: exports that look like a trace and are none, for a row of theirs is not one request. They are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from llmtrace.errors import InputError
from llmtrace.formats.columns import among

if TYPE_CHECKING:
    from llmtrace.formats.layout import Raw

__all__ = ["refuse"]

_NEEDS_REQUESTS = (
    "Export the single requests, one a row with its time and tokens; if this file has them after all, say --from generic."
)
EXPORTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("an OpenAI usage export, which sums tokens over time buckets", ("start_time", "end_time", "start_time_iso", "end_time_iso")),
    ("an OpenAI usage export, which sums tokens over time buckets", ("object", "start_time", "end_time", "results")),
    ("an Anthropic usage export, which sums tokens over days", ("usage_date_utc", "usage_output_tokens")),
    ("an Anthropic usage report, which sums tokens over time buckets", ("starting_at", "ending_at", "results")),
    ("an OpenRouter activity export by day, which sums tokens over days", ("Date", "Slug", "Requests", "Prompt Tokens")),
)
"""What it is, to the columns that tell it."""
COUNTS = ("requests", "num_requests", "request_count", "num_model_requests", "api_requests")
"""Columns that count requests, or hold several of them."""
SPANS = ("resourceSpans", "scopeSpans", "spans", "resourceLogs", "resourceMetrics")
"""Columns that hold the spans of OpenTelemetry and Jaeger, or its logs and metrics."""


def refuse(raw: Raw) -> None:
    """Raise if rows of this source are known not to be single requests.

    Raises:
        InputError: saying what the source is instead.
    """
    for what, columns in EXPORTS:
        if all(among(raw, [column]) for column in columns):
            raise InputError(f"{raw.name} is {what}: its rows are not requests", _NEEDS_REQUESTS)
    spans = among(raw, SPANS)
    if spans is not None and _nested(raw, spans):
        raise InputError(
            f"{raw.name} is telemetry (OpenTelemetry or Jaeger): a row holds several requests, in '{spans}'",
            "Unfold the spans that call a model to one request a row, each with its time and tokens (gen_ai.usage.input_tokens).",
        )
    counted = among(raw, COUNTS)
    if counted is None:
        return
    if _nested(raw, counted):
        raise InputError(
            f"{raw.name}: a row holds several requests, in '{counted}'", "Unfold it to one request a row, each with its time."
        )
    raise InputError(f"{raw.name} counts requests in '{counted}': its rows are sums over many", _NEEDS_REQUESTS)


def _nested(raw: Raw, column: str) -> bool:
    values = raw.first_rows([column])[column].drop_nulls()
    return raw.schema[column].is_nested() or (values.dtype == pl.String and values.str.starts_with("[").any())
