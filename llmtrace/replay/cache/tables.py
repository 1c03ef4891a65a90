"""The tables of `cache`, made of what was replayed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import polars.selectors as cs

from llmtrace.replay.cache.gaps import EDGES_S
from llmtrace.replay.cache.simulate import BINS, IDEAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from llmtrace.replay.cache.accounting import Hits
    from llmtrace.replay.cache.requests import Requests
    from llmtrace.replay.cache.simulate import Outcome, Run

    Integers = npt.NDArray[np.int64]

__all__ = ["RATIOS", "SKEW_SHARES", "by_capacity", "by_gap", "curve", "histogram", "reuse_skew"]

RATIOS = ("request_hit_ratio", "token_hit_ratio_full", "token_hit_ratio_prefix")
_LEARNING = {"trainings": pl.Int64(), "window_uses": pl.Int64()}
_KEY = {"policy": pl.String(), "capacity_tokens": pl.Int64()}
SKEW_SHARES = (0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Shares of the sessions or blocks, the most reused first, whose reuses are told."""
_GIB = 2**30


def curve(outcomes: Mapping[Run, Outcome], requests: Requests, kv_bytes: int | None) -> pl.DataFrame:
    """A row per policy and capacity, in the order of the runs."""
    schema = {**_KEY, **dict.fromkeys(RATIOS, pl.Float64()), "hit_requests": pl.Int64(), "reused_tokens": pl.Int64()}
    rows = [(*run, *_ratios(one.hits), one.hits.hit_requests, one.hits.prefix_tokens) for run, one in outcomes.items()]
    table = pl.DataFrame(rows, schema, orient="row")
    tokens, working_set = pl.col("capacity_tokens"), requests.working_set_tokens
    sizes = [pl.when(working_set > 0).then(tokens / max(working_set, 1)).alias("capacity_ratio")]
    sizes += [] if requests.block_tokens is None else [(tokens // requests.block_tokens).alias("capacity_blocks")]
    sizes += [] if kv_bytes is None else [(tokens * (kv_bytes / _GIB)).alias("capacity_gib")]
    if any(one.learning for one in outcomes.values()):
        learned = [one.learning or (None, None) for one in outcomes.values()]
        table = table.hstack(pl.DataFrame(learned, _LEARNING, orient="row"))
    learning = cs.by_name(*_LEARNING, require_all=False)
    return table.select(*_KEY, *RATIOS, *sizes, pl.col("hit_requests", "reused_tokens"), learning)


def by_capacity(outcomes: Mapping[Run, Outcome]) -> pl.DataFrame:
    """The token hit ratios by prefix as a row per capacity and a column per policy."""
    policies = dict.fromkeys(run.policy for run in outcomes)
    sizes = dict.fromkeys(run.capacity_tokens for run in outcomes)
    found = {run: one.hits.token_hit_ratio_prefix for run, one in outcomes.items()}
    by_size = {(run.capacity_tokens, run.policy): ratio for run, ratio in found.items()}
    rows = [(size, *(by_size.get((size, policy)) for policy in policies)) for size in sizes if size is not None]
    ideal = next((ratio for run, ratio in found.items() if run.policy == IDEAL), None)
    table = pl.DataFrame(rows, {"capacity_tokens": pl.Int64(), **dict.fromkeys(policies, pl.Float64())}, orient="row")
    return table.with_columns(pl.lit(ideal, pl.Float64).alias(IDEAL)) if IDEAL in policies else table


def histogram(outcomes: Mapping[Run, Outcome]) -> pl.DataFrame:
    """Requests and tokens by the hit ratio of a request, per policy and capacity, in the form of `hit-dist`."""
    edges = np.arange(BINS + 1) / BINS
    tables = [
        pl.DataFrame(
            {
                "hit_ratio_from": edges,
                "hit_ratio_to": np.append(edges[1:], 1.0),
                **{
                    column: values
                    for name, amount in zip(("requests", "input_tokens", "cached_tokens"), one.histogram.T, strict=True)
                    for column, values in ((name, amount), (f"{name}_ratio", _shares(amount)))
                },
            }
        ).select(*_labels(run), pl.all())
        for run, one in outcomes.items()
    ]
    return pl.concat(tables) if tables else pl.DataFrame(schema={**_KEY, "hit_ratio_from": pl.Float64()})


def by_gap(outcomes: Mapping[Run, Outcome]) -> pl.DataFrame:
    """What each policy hits of the tokens that a cache without bound would, by the idle gap before."""
    ideal = next((one.gap_tokens for run, one in outcomes.items() if run.policy == IDEAL), np.zeros(len(EDGES_S), np.int64))
    ends = [*EDGES_S[1:], None]
    tables = [
        pl.DataFrame(
            {
                "gap_from_s": pl.Series(EDGES_S, dtype=pl.Float64),
                "gap_to_s": pl.Series(ends, dtype=pl.Float64),
                "reusable_tokens": ideal,
                "hit_tokens": one.gap_tokens,
            }
        ).select(
            *_labels(run),
            pl.all(),
            pl.when(pl.col("reusable_tokens") > 0)
            .then(pl.col("hit_tokens") / pl.col("reusable_tokens"))
            .alias("token_hit_ratio"),
        )
        for run, one in outcomes.items()
    ]
    return pl.concat(tables) if tables else pl.DataFrame(schema={**_KEY, "gap_from_s": pl.Float64})


def reuse_skew(requests: Requests) -> pl.DataFrame:
    """How much of all reuse the most reused sessions or blocks make: a row per share of them.

    A use of a session or block after its first one is a reuse. All requests count.
    """
    reuses = np.sort(np.bincount(requests.stream.ids, minlength=requests.stream.objects) - 1)[::-1]
    sums, objects = np.concatenate([[0], np.cumsum(reuses)]), requests.stream.objects
    counts = [math.ceil(share * objects) for share in SKEW_SHARES] if objects else []
    columns = {
        "objects_ratio": SKEW_SHARES[: len(counts)],
        "objects": counts,
        "reuses": [int(sums[count]) for count in counts],
        "reuses_ratio": [float(sums[count] / sums[-1]) if sums[-1] else None for count in counts],
    }
    return pl.DataFrame(columns, dict(zip(columns, (pl.Float64, pl.Int64, pl.Int64, pl.Float64), strict=True)))


def _ratios(hits: Hits) -> tuple[float | None, ...]:
    return tuple(getattr(hits, name) for name in RATIOS)


def _labels(run: Run) -> list[pl.Expr]:
    return [pl.lit(value, dtype).alias(name) for value, (name, dtype) in zip(run, _KEY.items(), strict=True)]


def _shares(amounts: Integers) -> npt.NDArray[np.float64]:
    """What each is of all; 0 where there is nothing."""
    return amounts / max(int(amounts.sum()), 1)
