"""How unequally requests and tokens are spread over models and users: top shares, Gini's coefficient, rank and frequency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from llmtrace.analyses.popularity import zipf
from llmtrace.summaries.sums import narrowed

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.analyses.popularity.zipf import Fit

    Floats = npt.NDArray[np.float64]

__all__ = ["Spread", "gini", "rank_frequency", "spread", "table", "zipf_table"]

LEAST = 10
"""An entity counts in the fit of Zipf's law with as many requests, or as many tokens as that many mean requests have."""

_TOPS = (1, 10, 100)
_TOP_PERCENTS = (1, 10)
_PERCENTS = (50, 90, 99)
_EVERY_RANK, _PER_DECADE = 100, 32
"""The table `rank_frequency` has every rank up to here, and then so many to the decade."""


@dataclass(frozen=True)
class Spread:
    """How something is spread over entities.

    Attributes:
        of: what the entities are, `model` or `user`.
        by: what is spread, `requests` or `tokens`.
        amounts: how much each has, descending.
        total: how much there is, as a whole number.
        fit: Zipf's law fitted to the amounts.
    """

    of: str
    by: str
    amounts: Floats
    total: int
    fit: Fit

    @property
    def entities(self) -> int:
        """How many have a known amount."""
        return self.amounts.size

    @property
    def gini(self) -> float | None:
        """Gini's coefficient: see `gini`."""
        return gini(self.amounts)

    def top(self, count: int) -> float | None:
        """The share of the `count` that have most; None where there is nothing to share."""
        return float(self.amounts[:count].sum() / self.amounts.sum()) if self.total else None

    def needed(self, percent: int) -> int | None:
        """The fewest that have `percent` % together; None where there is nothing to share."""
        if not self.total:
            return None
        reached = np.cumsum(self.amounts)
        return int((reached * 100 < reached[-1] * percent).sum()) + 1


def spread(entities: pl.DataFrame, of: str, by: str) -> Spread:
    """How requests or tokens are spread.

    Args:
        entities: `requests`, `input_tokens` and `output_tokens` of each.
        of: what they are.
        by: `requests` or `tokens`; entities without known tokens have no part in those.
    """
    amount = {"requests": pl.col("requests").cast(pl.Int128), "tokens": _tokens()}[by]
    known = entities.select("requests", amount=amount).drop_nulls()
    amounts = np.sort(known["amount"].cast(pl.Float64).to_numpy())[::-1]
    total, requests = (int(known[name].sum()) for name in ("amount", "requests"))
    least = LEAST * total / requests if requests else 0.0
    return Spread(of, by, amounts, total, zipf.fit(amounts, least))


def gini(amounts: Floats) -> float | None:
    """Gini's coefficient: 0 where all have the same, near 1 where one has all; None where there is nothing to share.

    Half the mean absolute difference of two entities, over the mean.

    >>> gini(np.array([1.0, 1.0, 1.0])), gini(np.array([4.0, 0.0, 0.0, 0.0]))
    (0.0, 0.75)
    """
    ascending = np.sort(amounts)
    count, total = ascending.size, ascending.sum()
    if not total:
        return None
    weights = 2 * np.arange(1, count + 1) - count - 1
    return float((weights * ascending).sum() / (count * total))


def table(spreads: list[Spread]) -> pl.DataFrame:
    """The table `concentration`: one row per spread."""
    rows: list[dict[str, Any]] = [
        {
            "of": one.of,
            "by": one.by,
            "entities": one.entities,
            "total": one.total if one.entities else None,
            "gini": one.gini,
            **{f"top{count}_ratio": one.top(count) for count in _TOPS},
            **{f"needed_for_{percent}": one.needed(percent) for percent in _PERCENTS},
            **{f"top_{percent}_percent_ratio": one.top(_share_of(one.entities, percent)) for percent in _TOP_PERCENTS},
        }
        for one in spreads
    ]
    schema: dict[str, pl.DataType] = {
        "of": pl.String(),
        "by": pl.String(),
        "entities": pl.Int64(),
        "total": pl.Int128(),
        "gini": pl.Float64(),
        **{f"top{count}_ratio": pl.Float64() for count in _TOPS},
        **{f"needed_for_{percent}": pl.Int64() for percent in _PERCENTS},
        **{f"top_{percent}_percent_ratio": pl.Float64() for percent in _TOP_PERCENTS},
    }
    return narrowed(pl.DataFrame(rows, schema))


def zipf_table(spreads: list[Spread]) -> pl.DataFrame:
    """The table `zipf`: one row per spread."""
    rows = [(one.of, one.by, one.entities, *one.fit.described()) for one in spreads]
    schema = {"of": pl.String(), "by": pl.String(), "entities": pl.Int64(), **zipf.SCHEMA}
    return pl.DataFrame(rows, schema, orient="row")


def rank_frequency(spreads: list[Spread]) -> pl.DataFrame:
    """The table `rank_frequency`: the curves of all spreads at ranks that are evenly spaced on a logarithmic scale."""
    schema = {"of": pl.String(), "by": pl.String(), "rank": pl.Int64()}
    ratios = dict.fromkeys(("ratio", "cumulative_ratio", "fitted_ratio"), pl.Float64())
    return pl.concat([pl.DataFrame(schema={**schema, **ratios}), *(_curve(one) for one in spreads if one.total)])


def _curve(one: Spread) -> pl.DataFrame:
    ranks, total = _ranks(one.entities), one.amounts.sum()
    fitted = pl.Series("fitted_ratio", one.fit.values(ranks) / total)
    return pl.DataFrame({"rank": ranks}).select(
        pl.lit(one.of).alias("of"),
        pl.lit(one.by).alias("by"),
        "rank",
        pl.Series("ratio", one.amounts[ranks - 1] / total),
        pl.Series("cumulative_ratio", np.cumsum(one.amounts)[ranks - 1] / total),
        fitted.fill_nan(None),
    )


def _ranks(count: int) -> npt.NDArray[np.int64]:
    decades = np.arange(0, np.log10(max(count, 1)), 1 / _PER_DECADE)
    ranks = np.concatenate([np.arange(1, _EVERY_RANK + 1), np.round(10**decades), [count]]).astype(np.int64)
    return np.unique(ranks[ranks <= count])


def _share_of(count: int, percent: int) -> int:
    """So many percent of a number of entities, rounded up."""
    return -(-count * percent // 100)


def _tokens() -> pl.Expr:
    """Known input and output tokens together; null where neither is known."""
    sides = [pl.col(f"{side}_tokens").cast(pl.Int128) for side in ("input", "output")]
    return pl.when(pl.any_horizontal(side.is_not_null() for side in sides)).then(pl.sum_horizontal(sides))
