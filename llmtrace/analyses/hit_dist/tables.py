"""The scalars and tables of `hit-dist`, read from a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.analyses.hit_dist import latency, models, shape, users
from llmtrace.analyses.hit_dist.lengths import Lengths

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llmtrace.analyses.base import State
    from llmtrace.result import Scalar

__all__ = ["Found", "read"]

_RATIOS = ("token_hit_ratio", "mean_request_hit_ratio", "share_zero", "share_full")


@dataclass(frozen=True)
class Found:
    """What a state says, read once.

    Attributes:
        scalars: by name, in reading order; None is "not known".
        tables: by name.
    """

    scalars: Mapping[str, Scalar]
    tables: Mapping[str, pl.DataFrame]


def read(state: State, highlight: Sequence[str], *, per_user: bool) -> Found:
    """Everything that a state says.

    Args:
        state: of the whole trace.
        highlight: the models whose distribution is told; those with most requests if empty.
        per_user: whether there is a table with a row per user.
    """
    lengths, by_model, known_users = Lengths.read(state), models.by_model(state), users.described(state)
    by_hit = latency.by_hit(state)
    tables = {
        "by_input_length": lengths.by_input_length(),
        "histogram": lengths.histogram(),
        "cdf": pl.concat([lengths.cdf(), models.cdf(state, by_model, highlight)]),
        "by_model": by_model,
        "by_user": users.by_user(known_users),
        "user_grid": users.grid(known_users),
        "ttft_by_hit": by_hit,
        "ttft_saved": latency.saved(state),
    }
    counted = {
        "models": _number(by_model.drop_nulls("model").filter(pl.col("measured_requests") > 0)),
        "users": _number(known_users),
    }
    scalars = {**_kinds(state, lengths), **counted, **_ratios(lengths), **latency.scalars(by_hit)}
    return Found(scalars, tables | ({"users": users.users(state)} if per_user else {}))


def _kinds(state: State, lengths: Lengths) -> dict[str, Scalar]:
    kinds, measured = state["kinds"].row(0, named=True), lengths.overall["measured_requests"] or 0
    return {
        "requests": kinds["requests"],
        "measured_requests": measured,
        "measured_ratio": measured / kinds["requests"] if kinds["requests"] else None,
        "unlogged_requests": kinds["unlogged"],
        "failed_requests": kinds["failed"] if state["statuses"]["known"][0] else None,
        "no_input_requests": kinds["no_input"],
        "first_logged_timestamp": kinds["first"],
        "last_logged_timestamp": kinds["last"],
    }


def _ratios(lengths: Lengths) -> dict[str, Scalar]:
    """What the distribution over all requests is like."""
    overall, counts = lengths.overall, lengths.counts.sum(axis=0, keepdims=True)
    measured = bool(overall["measured_requests"])
    found = shape.modes(counts)
    numbers = {
        "median_hit_ratio": shape.quantiles(counts, [0.5])[0, 0],
        "bimodality": shape.bimodality(counts)[0],
        "valley_depth": found.depth[0],
        "lower_mode": found.lower[0],
        "valley": found.valley[0],
        "upper_mode": found.upper[0],
        "lesser_mode_share": found.lesser[0],
    }
    return {
        **{name: overall[name] if measured else None for name in ("input_tokens", "cached_tokens", *_RATIOS)},
        **{name: None if np.isnan(value) else float(value) for name, value in numbers.items()},
    }


def _number(frame: pl.DataFrame) -> int | None:
    """How many rows there are; None if there are none, since a column that is not there names nobody."""
    return frame.height or None
