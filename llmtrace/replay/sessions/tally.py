"""What sessions are like, added up part by part: requests and tokens by model and turn, and the gaps between turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.replay.sessions.requests import NONE
from llmtrace.summaries import histogram, keys, ttl
from llmtrace.summaries.accumulator import Counter
from llmtrace.summaries.interning import first_rows, intern
from llmtrace.summaries.pooled import Pool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llmtrace.replay.sessions.requests import Integers, Turns
    from llmtrace.summaries.interning import Keys
    from llmtrace.summaries.ttl import Sums

__all__ = ["BITS", "BITS_BY_MODEL", "Tally"]

BITS, BITS_BY_MODEL = 11, 8
"""Significant bits of the histograms of gaps."""

_GAP = "gap_us"
_AT_ONCE = 4
_SUMS = ("input_tokens", "output_tokens", "prefix_tokens")


class Tally:
    """Sums over requests and gaps; fed part by part."""

    def __init__(self, *, by_model: bool) -> None:
        """Have seen nothing; requests are told apart by model if sessions are, as numbers by model mean nothing otherwise."""
        self.requests, self._by_model = 0, by_model
        self._names: dict[int, str] = {}
        self._turns = Counter(_added, _AT_ONCE)
        self._gaps, self._gaps_by_model = Pool((_GAP,), BITS), Pool((_GAP,), BITS_BY_MODEL)
        self._sums = ttl.no_sums()

    def add(self, frame: pl.DataFrame, turns: Turns) -> None:
        """Take the rows of the next frame, and their turns."""
        self.requests += frame.height
        model = self._models(frame)
        found = pl.DataFrame(
            {"key": model, "turn": turns.turn, _GAP: turns.gap_us, "prefix_tokens": turns.prefix_tokens},
        ).with_columns(frame["input_tokens"], frame["output_tokens"])
        self._turns.add(_by_turn(found.filter(pl.col("turn") != NONE)))
        gaps = found.filter(pl.col(_GAP) >= 0).select("key", _GAP, "prefix_tokens").rechunk()
        self._gaps.add(histogram.summary((_GAP,), bits=BITS).summarise(gaps))
        self._gaps_by_model.add(histogram.summary((_GAP,), bits=BITS_BY_MODEL, by="key").summarise(gaps))
        _add_gaps(gaps[_GAP].to_numpy(), gaps["prefix_tokens"].to_numpy(), self._sums)

    def turns(self) -> pl.DataFrame:
        """A row per model and turn: `key`, `model`, `turn`, `requests`, and sums of tokens (Int128)."""
        names = pl.DataFrame(
            {"key": list(self._names), "model": list(self._names.values())}, {"key": pl.UInt64, "model": pl.String}
        )
        return self._turns.total().join(names, on="key", how="left").sort("key", "turn")

    def gaps(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The histograms of gaps, in microseconds: of all, and by `key` of the model."""
        return self._gaps.total(), self._gaps_by_model.total()

    def by_step(self) -> pl.DataFrame:
        """Per step of `ttl.TTLS_US` its `gaps`, and as `input_tokens` the prefixes of the requests after them."""
        return ttl.weights(self._sums)

    def _models(self, frame: pl.DataFrame) -> Keys:
        """The key of each row's model, whose name is noted."""
        if not self._by_model:
            return np.zeros(frame.height, np.uint64)
        models = keys.of(frame["model"])
        ids, distinct = intern(models)
        rows = first_rows(ids, distinct.size)
        self._names |= dict(zip(models[rows].tolist(), frame["model"].gather(rows), strict=True))
        return models


def _by_turn(found: pl.DataFrame) -> pl.DataFrame:
    """The requests and tokens of each model and turn."""
    sums = [_wide(found[name], found.height) for name in _SUMS]
    return (
        found.select("key", "turn", *sums)
        .group_by("key", "turn")
        .agg(pl.len().cast(pl.Int64).alias("requests"), pl.col(_SUMS).sum().cast(pl.Int128))
    )


def _wide(values: pl.Series, rows: int) -> pl.Series:
    """The values in as many bits as their sum may need."""
    largest = values.max()
    return values.cast(pl.Int128) if isinstance(largest, int) and largest * rows >> 63 else values


def _added(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames).group_by("key", "turn").sum()


@njit(nogil=True, cache=True)
def _add_gaps(gaps_us: Integers, prefix_tokens: Integers, sums: Sums) -> None:
    for row in range(gaps_us.size):
        ttl.add(sums, gaps_us[row], prefix_tokens[row], 0)
