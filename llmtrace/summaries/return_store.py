"""Keys followed from request to request, in order of time (see `returns` for what is found of them)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from llmtrace.summaries import cells, return_kernels, returns, trail_growth, ttl
from llmtrace.summaries.visits import moved

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from llmtrace.summaries.interning import Ids, Keys
    from llmtrace.summaries.return_kernels import Counts
    from llmtrace.summaries.returns import Tables
    from llmtrace.summaries.trails import Limits
    from llmtrace.summaries.visits import Visits

__all__ = ["Returns"]

_OF_SHARDS = ("outer", "pairs", "excess", "held", "profiles")


@dataclass(frozen=True)
class Returns:
    """Follow keys of two levels.

    Attributes:
        limits: how trails are kept.
    """

    limits: Limits

    def shard(self) -> _Shard:
        """A shard without keys."""
        return _Shard(self.limits)

    def counts(self) -> Counts:
        """No gaps, and no sums over them."""
        return np.zeros(ttl.CELLS, np.int64), ttl.no_sums()

    def added_up(self, counts: Sequence[Counts]) -> Counts:
        """All gaps, and the sums over them."""
        gaps, sums = zip(*counts, strict=True)
        return np.sum(gaps, axis=0), ttl.added_up(sums)

    def closed(self, keys: Keys, shard: _Shard, ranks: Ids) -> Tables:
        """The tables of the keys of a shard."""
        return shard.tables(keys, ranks)

    def tables(self, closed: Sequence[Tables], counts: Counts) -> Tables:
        """The tables of all shards."""
        none = returns.nothing()
        starts = np.cumsum([0, *(tables["pairs"].height for tables in closed)])
        placed = [
            {**tables, "excess": tables["excess"].with_columns(pl.col("pair") + int(start))}
            for tables, start in zip(closed, starts, strict=False)
        ]
        whole = {name: pl.concat([none[name], *(one[name] for one in placed)], how="vertical_relaxed") for name in _OF_SHARDS}
        gaps, sums = counts
        return {**whole, "cells": returns.counted(gaps), "weights": ttl.weights(sums)}

    def has_followed(self, state: Tables) -> bool:
        """Whether there are keys in the tables of a state."""
        return state["outer"].height > 0

    def combine(self, states: Sequence[Tables]) -> Tables:
        """The tables of several states."""
        return returns.combine(states, self.limits)


class _Shard:
    """The keys of a shard, outer key by outer key, in the order of their first requests."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._counts, self._inner, self._edges = np.empty(0, np.uint32), np.empty(0, np.uint32), np.empty((0, 4), np.int64)
        self._trails = trail_growth.none()

    def follow(self, visits: Visits, inner: int, counts: Counts) -> None:
        """Follow the keys through further requests."""
        table, own = visits.table, moved(self._counts, visits.before, 0)
        pair_of, before, self._inner, self._counts = return_kernels.number(table, visits.offsets, own, self._inner, inner)
        self._edges, further = return_kernels.follow(table, pair_of, before, self._edges, counts)
        self._trails = trail_growth.grown(self._trails, before, further, self._limits)

    def tables(self, keys: Keys, ranks: Ids) -> Tables:
        """What the tables say of them: the outer keys are these, `ranks` has the place of each inner one."""
        first_us, last_us, *tokens = (one.copy() for one in self._edges.T)
        columns: dict[str, npt.NDArray[np.integer[Any]]] = {"inner": ranks[self._inner], "first_us": first_us, "last_us": last_us}
        return {
            "outer": pl.DataFrame({"key": keys, "pairs": self._counts}),
            **returns.pairs(columns, tokens, self._trails),
            "held": pl.DataFrame({"cell": self._trails.held}),
            "profiles": pl.DataFrame(cells.lists(self._trails.profiles, "buckets")),
        }
