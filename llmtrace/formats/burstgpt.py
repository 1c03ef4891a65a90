"""BurstGPT: requests to ChatGPT and GPT-4 over months, in whole seconds from the first midnight.

Source: HPMLL/BurstGPT (Wang et al., arXiv 2401.17644). Columns are found by name, for release 2 put `Session ID, Elapsed
time` between the first ones of release 1. A request without response tokens is one that failed; the elapsed time is that of
the whole response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import polars as pl

from llmtrace.formats.columns import Draft, Scheme, among
from llmtrace.formats.layout import Cell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmtrace.formats.layout import Raw, Reading, ReadOptions

__all__ = ["BurstGPT"]

_SCHEME = Scheme(
    "burstgpt",
    {
        "timestamp": ("Timestamp",),
        "input_tokens": ("Request tokens",),
        "output_tokens": ("Response tokens",),
        "model": ("Model",),
        "endpoint": ("Log Type",),
        "session": ("Session ID",),
        "duration_s": ("Elapsed time",),
    },
    time_unit="s",
)
_ENDPOINTS = {"Conversation log": "chat", "API log": "api"}


class BurstGPT:
    """`Timestamp, Model, Request tokens, Response tokens, Total tokens, Log Type`, and two more since release 2."""

    name: ClassVar[str] = "burstgpt"
    names: ClassVar[Mapping[str, tuple[str, ...]]] = _SCHEME.names

    def matches(self, raw: Raw) -> bool:
        """Whether the columns that both releases have are there."""
        return all(among(raw, _SCHEME.names[name]) for name in ("timestamp", "model", "input_tokens", "output_tokens"))

    def read(self, raw: Raw, options: ReadOptions) -> Reading:
        """The reading; `status` is "failed" where no token came back.

        Raises:
            MissingColumnError: if a column is not there.
            UsageError: if the times cannot be understood.
        """
        draft = Draft(raw, options, _SCHEME)
        output = draft.cells["output_tokens"]
        status = pl.when(output.value == 0).then(pl.lit("failed")).when(output.value > 0).then(pl.lit("ok"))
        draft.put("status", Cell(status, None, output.sources))
        if endpoint := draft.cells.get("endpoint"):
            draft.put("endpoint", Cell(endpoint.value.replace(_ENDPOINTS), endpoint.bad, endpoint.sources))
        return draft.reading()
