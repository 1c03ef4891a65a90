"""What the replay of a cell says: hits, replication, imbalance, and what moving caches instead of computing them would cost.

Loads of instances are their mean active token rates: a request's rate is the tokens that are computed for it (its prompt less
what is found of it, and its answer) over how long it took, and an instance's load the sum of the rates in flight, averaged over
samples a minute apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.replay.route.cell import UNLIMITED
from llmtrace.replay.route.loop import (
    HIT_REQUESTS,
    HIT_TOKENS,
    MOVABLE_REQUESTS,
    MOVABLE_TOKENS,
    MOVED_SESSIONS,
    MOVES,
    TURNED_SESSIONS,
    TURNS,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.replay.route.cell import Outcome
    from llmtrace.replay.route.stream import Extent

    Loads = npt.NDArray[np.float64]
    Schema = Mapping[str, type[pl.DataType] | pl.DataType]

__all__ = ["SCHEMA", "Moving", "imbalance", "load", "tradeoff"]

_BITS, _GIGA = 8, 1e9
SCHEMA: Schema = {
    "policy": pl.String,
    "instances": pl.Int64,
    "capacity_tokens": pl.Int64,
    "token_hit_ratio": pl.Float64,
    "request_hit_ratio": pl.Float64,
    "replication": pl.Float64,
    "imbalance_ratio": pl.Float64,
    "jain": pl.Float64,
    "cv": pl.Float64,
    "max_min": pl.Float64,
    "instances_per_session": pl.Float64,
    "imbalance_requests_ratio": pl.Float64,
    "requests_in_flight": pl.Float64,
    "users_per_instance": pl.Float64,
    "moved_turns": pl.Int64,
    "moved_turns_ratio": pl.Float64,
    "moved_sessions_ratio": pl.Float64,
    "elsewhere_requests": pl.Int64,
    "elsewhere_tokens": pl.Int64,
    "token_hit_ratio_with_moves": pl.Float64,
    "moved_bytes": pl.Int128,
    "move_s": pl.Float64,
    "recompute_s": pl.Float64,
}
"""The columns of `tradeoff`."""


@dataclass(frozen=True)
class Moving:
    """What it takes to move a cache instead of computing it.

    Attributes:
        kv_bytes: bytes that a token takes in the cache; None if that is not known.
        link_gbps: what a link between instances carries, in gigabits a second.
        prefill_tokens_per_s: tokens of a prompt that an instance computes a second.
    """

    kv_bytes: int | None
    link_gbps: float
    prefill_tokens_per_s: float

    def bytes(self, tokens: int) -> int | None:
        """Bytes of so many tokens."""
        return None if self.kv_bytes is None else tokens * self.kv_bytes

    def seconds(self, tokens: int) -> float | None:
        """Seconds that one link takes to carry them."""
        return None if self.kv_bytes is None else tokens * self.kv_bytes * _BITS / (self.link_gbps * _GIGA)


def imbalance(loads: Loads) -> dict[str, float | None]:
    """How unequal loads are: the largest over the mean less 1, Jain's index, coefficient of variation, largest over smallest.

    With n loads Jain's index is the square of their sum over n times the sum of their squares: 1 if all are equal, 1/n if one
    instance has all. The coefficient of variation is that of a population. Null where there is no load; `max_min` also where an
    instance has none.

    >>> imbalance(np.array([3.0, 1.0]))
    {'imbalance_ratio': 0.5, 'jain': 0.8, 'cv': 0.5, 'max_min': 3.0}
    """
    total = float(loads.sum())
    if total <= 0:
        return dict.fromkeys(("imbalance_ratio", "jain", "cv", "max_min"))
    mean, least = total / loads.size, float(loads.min())
    return {
        "imbalance_ratio": float(loads.max()) / mean - 1,
        "jain": total * total / (loads.size * float(np.square(loads).sum())),
        "cv": float(loads.std()) / mean,
        "max_min": float(loads.max()) / least if least > 0 else None,
    }


def tradeoff(outcomes: Sequence[Outcome], extent: Extent, moving: Moving) -> pl.DataFrame:
    """A row for each cell, in their order."""
    return pl.DataFrame([_row(one, extent, moving) for one in outcomes], schema=SCHEMA, orient="row")


def _row(outcome: Outcome, extent: Extent, moving: Moving) -> dict[str, object]:
    cell, books, tokens = outcome.cell, outcome.books, extent.input_tokens
    counts = [int(count) for count in books.counts]
    elsewhere = counts[MOVABLE_TOKENS]
    loads = books.rates.sum(axis=0) / max(1, extent.samples)
    return {
        "policy": cell.rule.label,
        "instances": cell.instances,
        "capacity_tokens": None if cell.capacity_tokens == UNLIMITED else cell.capacity_tokens,
        "token_hit_ratio": _ratio(counts[HIT_TOKENS], tokens),
        "request_hit_ratio": _ratio(counts[HIT_REQUESTS], extent.requests),
        "replication": _ratio(outcome.physical_tokens, outcome.logical_tokens),
        **imbalance(loads),
        "instances_per_session": _ratio(outcome.copies, outcome.objects),
        "imbalance_requests_ratio": imbalance(books.requests.astype(np.float64))["imbalance_ratio"],
        "requests_in_flight": _ratio(int(books.queues.sum()), extent.samples * cell.instances),
        "users_per_instance": float(books.users.mean()) if extent.users else None,
        "moved_turns": counts[MOVES],
        "moved_turns_ratio": _ratio(counts[MOVES], counts[TURNS]),
        "moved_sessions_ratio": _ratio(counts[MOVED_SESSIONS], counts[TURNED_SESSIONS]),
        "elsewhere_requests": counts[MOVABLE_REQUESTS],
        "elsewhere_tokens": elsewhere,
        "token_hit_ratio_with_moves": _ratio(counts[HIT_TOKENS] + elsewhere, tokens),
        "moved_bytes": moving.bytes(elsewhere),
        "move_s": moving.seconds(elsewhere),
        "recompute_s": elsewhere / moving.prefill_tokens_per_s,
    }


def load(outcomes: Sequence[Outcome], extent: Extent, *, to_second: bool = False) -> pl.DataFrame:
    """The load of instances over time: a row for each cell and interval of whole minutes.

    A row has the policy, the time of the interval's first sample, and the mean, largest and smallest mean token rate of an
    instance in the interval's samples, with the imbalance of these rates, null where nothing was in flight.

    Args:
        outcomes: of the cells.
        extent: of the trace.
        to_second: whether times are cut to whole seconds, as suits dates.
    """
    frames = [_over_time(outcome, extent) for outcome in outcomes]
    table = pl.concat(frames) if frames else pl.DataFrame(schema=_LOAD)
    return table.with_columns(pl.col("time").dt.truncate("1s")) if to_second else table


_LOAD: Schema = {
    "policy": pl.String,
    "time": pl.Datetime("us"),
    "mean_tokens_per_s": pl.Float64,
    "max_tokens_per_s": pl.Float64,
    "min_tokens_per_s": pl.Float64,
    "imbalance_ratio": pl.Float64,
}


def _over_time(outcome: Outcome, extent: Extent) -> pl.DataFrame:
    books = outcome.books
    begins = np.arange(books.rates.shape[0]) * books.stride
    samples = np.minimum(begins + books.stride, extent.samples) - begins
    rates = books.rates / samples[:, None] if begins.size else books.rates
    mean, most = rates.mean(axis=1), rates.max(axis=1, initial=0.0)
    found = {
        "policy": [outcome.cell.rule.label] * begins.size,
        "time": extent.sample_times(begins),
        "mean_tokens_per_s": mean,
        "max_tokens_per_s": most,
        "min_tokens_per_s": rates.min(axis=1) if begins.size else mean,
        "imbalance_ratio": np.divide(most, mean, out=np.full(mean.size, np.nan), where=mean > 0) - 1,
    }
    return pl.DataFrame(found, schema=_LOAD).with_columns(pl.col("imbalance_ratio").fill_nan(None))


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
