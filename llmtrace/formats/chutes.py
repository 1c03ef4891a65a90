"""Chutes: a year of requests to thousands of models, with users, replicas, cached tokens and latencies.

Source: harvardMadsys/chutes_metadata (Nixon et al., arXiv 2608.13573). Times are elapsed time written as dates of 1970. Token
counts are 32-bit floats. User ids are hashed anew every three months, so a user is an id within a round; most ids carry their
round already (`u5_0027020`). A request without `completed_at` did not complete, and its status says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import polars as pl

from llmtrace.formats.cells import elapsed, text
from llmtrace.formats.columns import Draft, Scheme, among
from llmtrace.formats.layout import Cell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmtrace.formats.layout import Raw, Reading, ReadOptions

__all__ = ["Chutes", "user_of_round"]

_SCHEME = Scheme(
    "chutes",
    {
        "timestamp": ("started_at",),
        "input_tokens": ("it", "input_tokens"),
        "output_tokens": ("ot", "output_tokens"),
        "request_id": ("invocation_id",),
        "user": ("user_id",),
        "model": ("chute_id",),
        "instance": ("instance_id",),
        "endpoint": ("function_name",),
        "session": ("session_id",),
        "turn": ("turn_id",),
        "cached_tokens": ("ct", "cached_tokens"),
        "ttft_s": ("ttft",),
    },
)


class Chutes:
    """`invocation_id, function_name, chute_id, user_id, rehash_round, instance_id, started_at, completed_at, it, ...`."""

    name: ClassVar[str] = "chutes"
    names: ClassVar[Mapping[str, tuple[str, ...]]] = _SCHEME.names

    def matches(self, raw: Raw) -> bool:
        """Whether `chute_id`, `started_at` and both token counts are there, in either spelling."""
        return all(among(raw, _SCHEME.names[name]) for name in ("model", "timestamp", "input_tokens", "output_tokens"))

    def read(self, raw: Raw, options: ReadOptions) -> Reading:
        """The reading.

        Raises:
            MissingColumnError: if a column is not there.
            UsageError: if the times cannot be understood.
        """
        draft = Draft(raw, options, _SCHEME)
        if endpoint := draft.cells.get("endpoint"):
            draft.put("stream", Cell(endpoint.value.str.ends_with("_stream"), None, endpoint.sources))
        user, rehash_round = draft.cells.get("user"), draft.column("rehash_round")
        if user and rehash_round:
            draft.put("user", user_of_round(user, text(rehash_round, raw.schema[rehash_round])))
        if completed := draft.column("completed_at"):
            end = draft.times("duration_s", completed).cell
            draft.put("duration_s", elapsed(draft.cells["timestamp"], end))
            draft.put("status", Cell(_status(end, completed), None, end.sources))
        return draft.reading()


def user_of_round(user: Cell, rehash_round: Cell) -> Cell:
    """A user within its round: `u5_0027020`, which many ids say themselves."""
    prefix = pl.concat_str(pl.lit("u"), rehash_round.value, pl.lit("_"))
    whole = user.value.str.starts_with(prefix) | rehash_round.value.is_null()
    name = pl.when(whole).then(user.value).otherwise(pl.concat_str(prefix, user.value))
    return Cell(name, user.bad, (*user.sources, *rehash_round.sources))


def _status(end: Cell, completed: str) -> pl.Expr:
    return pl.when(end.value.is_not_null()).then(pl.lit("ok")).when(pl.col(completed).is_null()).then(pl.lit("incomplete"))
