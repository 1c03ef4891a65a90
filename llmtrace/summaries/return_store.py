"""Keys followed from request to request, in order of time (see `returns` for what is found of them)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from llmtrace.summaries import return_kernels, returns, trail_growth, trails, ttl

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from llmtrace.summaries.interning import Ids, Keys
    from llmtrace.summaries.return_kernels import Counts, Firsts
    from llmtrace.summaries.returns import Tables
    from llmtrace.summaries.trails import Limits, Trails
    from llmtrace.summaries.visits import Visits

    Closed = tuple[Tables, Trails]

__all__ = ["Returns"]


@dataclass(frozen=True)
class Returns:
    """Follow keys of two levels.

    Attributes:
        limits: how trails are kept.
        is_all: whether nothing comes before what is followed: then the tables have no columns of first requests.
    """

    limits: Limits
    is_all: bool = False

    def shard(self) -> _Shard:
        """A shard without keys."""
        return _Shard(self.limits, is_all=self.is_all)

    def counts(self) -> Counts:
        """No gaps, and no sums over them."""
        return np.zeros(ttl.CELLS, np.uint32), ttl.no_sums()

    def added_up(self, counts: Sequence[Counts]) -> Counts:
        """All gaps, and the sums over them."""
        gaps, sums = zip(*counts, strict=True)
        return np.stack(gaps).sum(axis=0, dtype=np.int64), ttl.added_up(sums)

    def closed(self, keys: Keys, shard: _Shard, ranks: Ids) -> Closed:
        """The tables of the keys of a shard, and their trails."""
        return shard.closed(keys, ranks)

    def tables(self, closed: Sequence[Closed], counts: Counts) -> Tables:
        """The tables of all shards."""
        none, settled = self.shard().closed(np.empty(0, np.uint64), np.empty(0, np.uint32))
        starts = np.cumsum([0, *(tables["pairs"].height for tables, _ in closed)])
        placed = [
            {**tables, "excess": tables["excess"].with_columns(pl.col("pair") + int(start))}
            for (tables, _), start in zip(closed, starts, strict=False)
        ]
        whole = {name: pl.concat([none[name], *(one[name] for one in placed)], how="vertical_relaxed") for name in none}
        kept = trails.beside([settled, *(own for _, own in closed)])
        gaps, sums = counts
        return {**returns.with_trails(whole, kept), "cells": returns.counted(gaps), "weights": ttl.weights(sums)}

    def has_followed(self, state: Tables) -> bool:
        """Whether there are keys in the tables of a state."""
        return state["outer"].height > 0

    def combine(self, states: Sequence[Tables]) -> Tables:
        """The tables of several states."""
        return returns.combine(states, self.limits)


class _Shard:
    """The keys of a shard, outer key by outer key, in the order of their first requests."""

    def __init__(self, limits: Limits, *, is_all: bool) -> None:
        self._limits, self._pairs, self._trails = limits, return_kernels.no_pairs(), trail_growth.none()
        self._born: list[Firsts] | None = None if is_all else []

    def follow(self, visits: Visits, inner: int, counts: Counts) -> None:
        """Follow the keys through further requests."""
        self._pairs, firsts, further = return_kernels.follow(visits, self._pairs, inner, counts, has_born=self._born is not None)
        if self._born is not None:
            self._born.append((firsts[0].copy(), firsts[1].copy()))
        self._trails = self._trails.grown(self._pairs.positive, further, self._limits)
        self._pairs = self._pairs._replace(positive=self._trails.positive)

    def closed(self, keys: Keys, ranks: Ids) -> Closed:
        """What the tables say of them: the outer keys are these, `ranks` has the place of each inner one; their trails."""
        settled, first_us, first_input = self._trails.settled(self._limits), {}, {}
        if self._born is not None:
            first_us["first_us"], first_input["first_input_tokens"] = (one.take(self._pairs.born) for one in _firsts(self._born))
        columns: dict[str, npt.NDArray[np.integer[Any]]]
        columns = {"inner": ranks.take(self._pairs.inner), **first_us, "last_us": self._pairs.last_us}
        tokens = {**first_input, "last_tokens": self._pairs.last_tokens}
        outer = pl.DataFrame({"key": keys, "pairs": self._pairs.counts})
        return {"outer": outer, **returns.pairs(columns, tokens)}, settled


def _firsts(born: Sequence[Firsts]) -> Firsts:
    """Time and input tokens of the first visits of pairs, in the order of birth."""
    first_us, first_input = zip((np.empty(0, np.int64), np.empty(0, np.uint32)), *born, strict=True)
    return np.concatenate(first_us), np.concatenate(first_input)
