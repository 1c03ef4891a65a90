"""Weights of the policy `score` for a trace: all that are tried, those that nothing beats in both respects, and one to take.

Hits and balance pull against each other. A point is on the Pareto front if no other has at least its hit ratio and at most its
imbalance, and is better in one of the two.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.replay.route.rules import Rule, defaults

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["GIVE_UP", "candidates", "pareto", "recommended"]

GIVE_UP = 0.01
"""What share of the best hit ratio may be given up for balance without more."""
_BETAS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_GAMMAS = (0.0, 0.03, 0.3, 1.0)
_DELTAS = (0.0, 0.3)
"""Only ratios of weights matter, so that alpha is 1; beside it the point that looks at load alone."""


def candidates() -> tuple[Rule, ...]:
    """The weights that are tried."""
    tried = [_score(beta=beta, gamma=gamma, delta=delta) for beta, gamma, delta in product(_BETAS, _GAMMAS, _DELTAS)]
    return (*tried, _score(alpha=0.0, beta=1.0))


def _score(**weights: float) -> Rule:
    """The policy with these weights, of which those that are its defaults need not be named."""
    usual = defaults("score")
    return Rule("score", tuple((name, weight) for name, weight in weights.items() if weight != usual[name]))


def pareto(tried: pl.DataFrame) -> pl.DataFrame:
    """The rows of `tradeoff` sorted by imbalance, with `is_on_front`: whether nothing beats the row.

    Of rows that are alike in both respects the first is on the front; without load none is.
    """
    order = {"imbalance_ratio": False, "token_hit_ratio": True, "place": False}
    ranked = tried.with_row_index("place").sort(list(order), descending=list(order.values()), nulls_last=True)
    hits = ranked["token_hit_ratio"].fill_null(0.0).to_numpy()
    is_known = ranked["imbalance_ratio"].is_not_null().to_numpy()
    return ranked.drop("place").with_columns(pl.Series("is_on_front", _rises(hits) & is_known))


def recommended(front: pl.DataFrame, give_up: float = GIVE_UP) -> pl.DataFrame:
    """Of the rows on the front the most even one that gives up at most a share of the best hit ratio; one row, or none."""
    best = front.filter("is_on_front")
    least = pl.col("token_hit_ratio").max() * (1 - give_up)
    return best.filter(pl.col("token_hit_ratio") >= least).head(1)


def _rises(hits: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Whether each number is higher than all before it."""
    before = np.concatenate([[-np.inf], np.maximum.accumulate(hits)[:-1]]) if hits.size else hits
    is_higher: npt.NDArray[np.bool_] = hits > before
    return is_higher
