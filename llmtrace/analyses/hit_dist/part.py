"""What `hit-dist` keeps of a part, and how parts are put together.

Tables of a state, besides `parameters`:

    statuses     `known`: how many requests have a known status
    kinds        how many requests there are, and without a ratio for which reason; the first and the last arrival with one
    lengths      a summary of `hits` by input length and cell (see `hit_lengths`)
    models       a summary of `hits` by model
    model_cells  the distribution of each model's ratios (see `hit_cells`)
    model_names  the name behind the key of each known model
    users, user_names   the same by user; names only where users are listed
    ttft         histograms of the TTFT by input length and ratio (see `hit_lengths`)
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.schema import failed, streamed
from llmtrace.summaries import histogram, hit_cells, hit_lengths, hits, keys, parameters
from llmtrace.summaries.accumulator import Counter, Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.accumulator import Accumulator
    from llmtrace.summaries.hits import Hits

__all__ = ["SCHEMAS", "accumulators", "combine", "summarise"]

_AT_ONCE = 12
_PIECE_ROWS = 1 << 17
"""Rows that are worked on together: few enough that what is known of them stays in a processor's cache."""
_NAMES: Mapping[str, pl.DataType] = {"key": pl.UInt64(), "name": pl.String()}
_KINDS: Mapping[str, pl.DataType] = {
    **dict.fromkeys(("requests", "failed", "unlogged", "no_input"), pl.Int64()),
    "first": pl.Datetime("us"),
    "last": pl.Datetime("us"),
}
SCHEMAS: Mapping[str, Mapping[str, pl.DataType]] = {
    "statuses": {"known": pl.Int64()},
    "kinds": _KINDS,
    "lengths": hits.SCHEMA,
    "models": hits.SCHEMA,
    "model_cells": hit_cells.SCHEMA,
    "model_names": _NAMES,
    "users": hits.SCHEMA,
    "user_names": _NAMES,
    "ttft": hit_lengths.TTFT_SCHEMA,
}
"""The columns of each table of a state but `parameters`."""


def summarise(part: pl.DataFrame, zero_at: float, full_at: float, *, per_user: bool) -> dict[str, pl.DataFrame]:
    """The state of a part.

    Args:
        part: its requests in order of time: `timestamp`, `status`, input and cached tokens; `model`, `user`, `ttft_s` and
            `stream` as far as they matter.
        zero_at: the highest hit ratio that counts as no hit.
        full_at: the lowest that counts as a hit of the whole prefix.
        per_user: whether users are known by name.
    """
    thresholds = tuple(round(2 * hits.STEPS * ratio) for ratio in (zero_at, full_at))
    pieces = list(_pieces(part))
    found = [_measured(piece) for piece in pieces]
    tables = dict(_nothing())
    tables["statuses"] = pl.DataFrame({"known": [part.height - part["status"].null_count()]})
    tables |= {"kinds": _kinds(part["timestamp"], found), "lengths": hit_lengths.by_length(found, *thresholds)}
    if "model" in part.columns:
        ids, distinct = keys.numbered(part["model"])
        tables["models"] = hits.per_key(ids, distinct, found, *thresholds)
        cells = np.concatenate([some.cells for some in found])
        tables["model_cells"] = hit_cells.summarise(ids, distinct, cells)
        tables["model_names"] = keys.behind(ids, distinct, part["model"])
    if "user" in part.columns:
        ids, distinct = keys.numbered(part["user"])
        tables["users"] = hits.per_key(ids, distinct, found, *thresholds)
        tables |= {"user_names": keys.behind(ids, distinct, part["user"])} if per_user else {}
    if "ttft_s" in part.columns:
        tables["ttft"] = hit_lengths.ttft(zip(found, (_ttft_s(piece) for piece in pieces), strict=True))
    return tables


def combine(states: Sequence[Mapping[str, pl.DataFrame]]) -> dict[str, pl.DataFrame]:
    """The state of several parts, in order of time.

    Raises:
        ValueError: if they were made with different parameters.
    """
    return {name: combined([state[name] for state in states]) for name, combined in _COMBINE.items()}


def accumulators() -> Tables[pl.DataFrame]:
    """One per table: what is summed per key goes into ledgers, the others are small enough to be combined by the dozen."""
    by_table: dict[str, Accumulator[pl.DataFrame]] = {
        name: hits.Ledger() if combined == hits.combine else Counter(combined, _AT_ONCE) for name, combined in _COMBINE.items()
    }
    return Tables(by_table)


@cache
def _nothing() -> Mapping[str, pl.DataFrame]:
    """The tables of a part of which nothing is to be known."""
    return {name: pl.DataFrame(schema=dict(schema)) for name, schema in SCHEMAS.items()}


def _ttft_s(piece: pl.DataFrame) -> npt.NDArray[np.float64]:
    """The TTFT of each request, 0 where it is not known, or where the request did not stream: then it is the duration."""
    column = piece["ttft_s"]
    if not piece["stream"].all():
        column = piece.select(pl.when(streamed()).then("ttft_s")).to_series()
    return (column.fill_null(0.0) if column.null_count() else column).to_numpy()


def _pieces(part: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """A part, in one piece at least: cut where its chunks end, so that each column is an array, and where these are long."""
    start = 0
    for length in part["input_tokens"].chunk_lengths():
        for row in range(0, max(length, 1), _PIECE_ROWS):
            yield part.slice(start + row, min(length - row, _PIECE_ROWS))
        start += length


def _measured(part: pl.DataFrame) -> Hits:
    """The hit ratio of each request.

    Where no request has failed and all tokens are known, nothing is worked out: Polars would copy every column.
    """
    inputs, cached = part["input_tokens"], part["cached_tokens"]
    if cached.null_count():
        cached = cached.fill_null(hits.UNLOGGED)
    if part["status"].null_count() < part.height:
        cached = part.select(pl.when(failed()).then(hits.FAILED).otherwise(cached).alias("cached_tokens")).to_series()
    if inputs.null_count():
        inputs = inputs.fill_null(-1)
    return hits.measure(inputs.to_numpy(), cached.to_numpy())


def _kinds(times: pl.Series, pieces: Sequence[Hits]) -> pl.DataFrame:
    starts = np.cumsum([0, *(some.cells.size for some in pieces)])
    edges = [
        start + row for start, some in zip(starts, pieces, strict=False) for row in (some.first_row, some.last_row) if row >= 0
    ]
    first, last = (times[int(edges[place])] if edges else None for place in (0, -1))
    counts = [sum(getattr(some, name) for some in pieces) for name in ("failed", "unlogged", "no_input")]
    return pl.DataFrame([(times.len(), *counts, first, last)], dict(_KINDS), orient="row")


def _combined_kinds(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    kinds = pl.concat(frames)
    return kinds.select(pl.exclude("first", "last").sum(), pl.col("first").min(), pl.col("last").max())


def _added(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames).sum()


_COMBINE: Mapping[str, Callable[[Sequence[pl.DataFrame]], pl.DataFrame]] = {
    "parameters": parameters.combine,
    "statuses": _added,
    "kinds": _combined_kinds,
    "lengths": hits.combine,
    "models": hits.combine,
    "model_cells": hit_cells.combine,
    "model_names": keys.combine_names,
    "users": hits.combine,
    "user_names": keys.combine_names,
    "ttft": histogram.combine,
}
