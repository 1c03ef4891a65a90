"""The table `coverage` of `reuse-time` and its scalars: what a time to live covers, and what it keeps in vain."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.summaries import returns, ttl
from llmtrace.summaries.histogram import bucket_indices, bucket_starts
from llmtrace.summaries.intervals import microseconds
from llmtrace.summaries.quantiles import quantiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llmtrace.analyses.base import State
    from llmtrace.analyses.reuse_time.eligible import Eligible
    from llmtrace.result import Scalar
    from llmtrace.summaries.span import Span

__all__ = ["ANCHORS_S", "anchors", "scalars", "table"]

ANCHORS_S = {"100ms": 0.1, "1s": 1.0, "10s": 10.0, "1min": 60.0, "5min": 300.0, "15min": 900.0, "1h": 3_600.0, "12h": 43_200.0}
"""TTLs whose coverage is a scalar, by the name it has there."""

_LONGER_S = (86_400.0, 604_800.0)
_QUANTILES = {"p50_s": 0.5, "p90_s": 0.9, "p99_s": 0.99}
_SECOND_US = 1_000_000
_STEPS = ttl.TTLS_US.size + 1
_SLICE = 1 << 17


def scalars(state: State, eligible: Eligible) -> dict[str, Scalar]:
    """Every scalar, in reading order; None is "not known"."""
    keys, gaps = state["pairs"].height, int(eligible.cells["gaps"].sum())
    zero = int(eligible.cells.filter(pl.col("cell") == 0)["gaps"].sum())
    return {
        "requests": state["totals"]["requests"][0],
        "keyed_requests": keys + gaps,
        "keys": keys,
        "eligible_keys": int(eligible.keys.sum()),
        **_described(eligible.cells, "released"),
        **{f"{name}_all": value for name, value in _described(eligible.cells, "gaps").items()},
        "zero_gaps": zero,
        "zero_gap_ratio": _ratio(zero, gaps),
    }


def table(state: State, eligible: Eligible, span: Span) -> pl.DataFrame:
    """One row per TTL, up to the first that is as long as the trace."""
    span_us = 0 if span.first is None or span.last is None else microseconds(span.last) - microseconds(span.first)
    rows = min(int(np.searchsorted(ttl.TTLS_US, span_us)) + 1, ttl.TTLS_US.size)
    known = state["totals"].row(0, named=True)
    released, gaps = (_up_to(_by_step(eligible.cells, name)) for name in ("released", "gaps"))
    covered = _up_to(_per_step(state["weights"], "input_tokens"))
    retained, wasted = _kept(state, span) if known["tokens_known"] else ([None] * _STEPS, [None] * _STEPS)
    has_input = known["input_tokens_known"] > 0
    columns: dict[str, Sequence[float | None]] = {
        "ttl_s": [int(us) / _SECOND_US for us in ttl.TTLS_US],
        "covered_ratio": [_ratio(count, released[-1]) for count in released],
        "covered_ratio_all": [_ratio(count, gaps[-1]) for count in gaps],
        "covered_requests": gaps,
        "covered_requests_ratio": [_ratio(count, known["requests"]) for count in gaps],
        "covered_input_tokens_ratio": [_ratio(tokens, known["input_tokens"]) if has_input else None for tokens in covered],
        "retained_token_seconds": [_seconds(token_us) for token_us in retained],
        "wasted_token_seconds": [_seconds(token_us) for token_us in wasted],
        "wasted_ratio": [_ratio(*pair) for pair in zip(wasted, retained, strict=True)],
        "mean_retained_tokens": [_ratio(token_us, span_us) for token_us in retained],
    }
    schema = {name: pl.Int64 if name == "covered_requests" else pl.Float64 for name in columns}
    return pl.DataFrame({name: values[:rows] for name, values in columns.items()}, schema)


def anchors(coverage: pl.DataFrame) -> pl.DataFrame:
    """The rows of the table at customary TTLs."""
    return coverage.filter(pl.col("ttl_s").is_in([*ANCHORS_S.values(), *_LONGER_S]))


def _described(cells: pl.DataFrame, column: str) -> dict[str, Scalar]:
    """How many gaps there are, their quantiles, and the share of them within each anchor."""
    counted = cells.filter(pl.col(column) > 0)
    gaps = int(counted[column].sum())
    covered = _up_to(_by_step(counted, column))
    anchors = np.searchsorted(ttl.TTLS_US, [round(seconds * _SECOND_US) for seconds in ANCHORS_S.values()])
    within = {f"within_{name}": _ratio(covered[step], gaps) for name, step in zip(ANCHORS_S, anchors, strict=True)}
    return {"gaps": gaps, **_quantiles(counted, column), **within}


def _quantiles(counted: pl.DataFrame, column: str) -> dict[str, Scalar]:
    if counted.is_empty():
        return dict.fromkeys(_QUANTILES)
    buckets = bucket_indices(ttl.cell_starts(counted["cell"].to_numpy()), ttl.BITS)
    middles = (bucket_starts(buckets, ttl.BITS) + bucket_starts(buckets + 1, ttl.BITS) - 1) / 2
    ends = {"min": middles[:1], "max": middles[-1:]}
    lists = {"buckets": pl.Series(buckets).implode(), "counts": counted[column].implode()}
    found = quantiles(pl.DataFrame({**ends, **lists}), list(_QUANTILES.values()), bits=ttl.BITS)[0] / _SECOND_US
    values: list[float] = found.tolist()
    return dict(zip(_QUANTILES, values, strict=True))


def _kept(state: State, span: Span) -> tuple[list[int], list[int]]:
    """Token-microseconds that each TTL retains, and those of them that it retains in vain.

    A request's tokens are retained from its arrival until the next one of its key, until the TTL ends or until the trace ends,
    whichever comes first. If it is the next arrival they are reused, else they were retained in vain.
    """
    reused = _up_to(_per_step(state["weights"], "token_us"))
    last = _last_requests(state, 0 if span.last is None else microseconds(span.last))
    ended = _up_to(_per_step(last, "token_us"))
    expiring = [a + b for a, b in zip(*(_beyond(_per_step(sums, "tokens")) for sums in (state["weights"], last)), strict=True)]
    wasted = [end + int(us) * tokens for end, us, tokens in zip(ended, ttl.TTLS_US, expiring, strict=False)]
    return [use + waste for use, waste in zip(reused, wasted, strict=False)], wasted


def _last_requests(state: State, end_us: int) -> pl.DataFrame:
    """The weights of the last request of each key and the time from it to the end of the trace."""
    sums = ttl.no_sums()
    for keys in returns.slices(state, _SLICE):
        last_us, tokens = keys["pairs"]["last_us"].to_numpy(), returns.tokens_of(keys, "last_tokens").astype(np.int64)
        ttl.weigh(end_us - last_us, np.zeros_like(tokens), tokens, sums)
    return ttl.weights(sums)


def _by_step(cells: pl.DataFrame, column: str) -> list[int]:
    """The gaps of each step."""
    steps = ttl.steps(cells["cell"].to_numpy())
    return [int(count) for count in np.bincount(steps, cells[column].to_numpy(), _STEPS)]


def _per_step(weights: pl.DataFrame, column: str) -> list[int]:
    """A sum for every step, 0 where nothing is."""
    sums = [0] * _STEPS
    for step, value in weights.select("step", column).iter_rows():
        sums[step] = value
    return sums


def _up_to(sums: Sequence[int]) -> list[int]:
    return list(accumulate(sums))


def _beyond(sums: Sequence[int]) -> list[int]:
    reached = _up_to(sums)
    return [reached[-1] - value for value in reached]


def _seconds(us: int | None) -> float | None:
    return None if us is None else us / _SECOND_US


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    """The quotient; None where a side is not known or the denominator is zero."""
    return None if numerator is None or not denominator else numerator / denominator
