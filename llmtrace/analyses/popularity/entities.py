"""Models and users: what each has, and how many of them there are of each kind (Figures 5 and 6 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from llmtrace.summaries import accounts, histogram, keys, quantiles, user_medians, user_tallies
from llmtrace.summaries.sums import narrowed
from llmtrace.summaries.tallies import Tallies
from llmtrace.summaries.usage import CELLS

if TYPE_CHECKING:
    from llmtrace.analyses.base import State
    from llmtrace.summaries.groups import Groups, Integers

__all__ = [
    "BITS_BY_MODEL",
    "GRID_BITS",
    "LEAST_GAPS",
    "LEAST_REQUESTS",
    "MODEL_LENGTHS",
    "PAIRED",
    "Entities",
    "model_lengths",
    "models_table",
    "read",
    "tallies",
    "user_breadth",
    "user_lengths",
    "users_table",
]

PAIRED = {"input": "paired_input_tokens", "output": "paired_output_tokens"}
"""The columns of tokens of requests of which both sides are positive."""
BITS_BY_MODEL = 8
"""Significant bits of the histograms of a model's tokens; those of a user `usage.USER_BITS`."""
MODEL_LENGTHS = histogram.summary(tuple(PAIRED.values()), bits=BITS_BY_MODEL, by="key")
"""The histograms of both sides of each model's requests."""
GRID_BITS = 4
"""Significant bits of the cells that users are counted in."""
LEAST_GAPS = 100
"""Figure 5a shows models with as many positive gaps."""
LEAST_REQUESTS = 11
"""Figures 5b and 6 show users with as many requests: more than 10."""
PERCENT = 90

_SIDES = ("input", "output")
_AMOUNTS = ("requests", "requests_ratio", "input_tokens", "output_tokens", "tokens_ratio")
_MEDIANS = ("median_input_tokens", "median_output_tokens")
_TIMES = ("first_timestamp", "last_timestamp")


@dataclass(frozen=True)
class Entities:
    """All known models and all known users, those with most requests first.

    Attributes:
        models: one row per model: the columns of the table `models`.
        users: one row per user: those of the table `users`.
        requests: how many requests there are, those that name neither included.
    """

    models: pl.DataFrame
    users: pl.DataFrame
    requests: int


def read(state: State) -> Entities:
    """What a state says of every model and user."""
    met = tallies(state, "met", state["models"].height)
    of_models = user_tallies.by_model(met, state["models"].height, PERCENT)
    by_name = state["models"]["name"].rank("ordinal").fill_null(0).cast(pl.Int64).to_numpy()
    of_users = user_tallies.by_user(met, by_name)
    models = state["models"].with_columns(of_models.get_columns()).join(_model_medians(state), on="key", how="left")
    users = state["users"].with_columns(*of_users.get_columns(), *_user_medians(state))
    names = users["inner"].to_frame().select(state["models"]["name"].gather(users["inner"]).alias("top_model"))
    requests = int(state["users"]["requests"].sum())
    return Entities(_described(models), _described(users.with_columns(names.get_columns())), requests)


def tallies(state: State, of: str, width: int = CELLS) -> Tallies:
    """The tallies of users in a state: `met`, whose cells are the rows of models, or `lengths`."""
    return Tallies(state["sizes"][of].to_numpy(), state[of]["tally"].to_numpy(), width)


def model_lengths(models: Groups, inputs: Integers, outputs: Integers) -> pl.DataFrame:
    """The histograms of both sides of each model's requests.

    Args:
        models: requests by model.
        inputs: input tokens, -1 where they do not count.
        outputs: output tokens, the same.
    """
    labels, keyed = models.labels["key"].to_numpy(), np.empty(models.order.size, np.uint64)
    keyed[models.order] = labels
    columns = {"key": keyed[models.ids], **dict(zip(PAIRED.values(), (inputs, outputs), strict=True))}
    return MODEL_LENGTHS.summarise(pl.DataFrame(columns))


def models_table(entities: Entities) -> pl.DataFrame:
    """The table `models`: all of them."""
    met = pl.col("pairs") > 0
    table = entities.models.select(
        "rank",
        pl.col("name").alias("model"),
        *_AMOUNTS,
        pl.when(met).then("pairs").alias("users"),
        pl.when(met).then("needed").alias(f"users_for_{PERCENT}"),
        pl.when(met).then(pl.col("most") / pl.col("met")).alias("top_user_ratio"),
        *_MEDIANS,
        (pl.col("instants") - 1).alias("positive_gaps"),
        *_TIMES,
    )
    return narrowed(table)


def users_table(entities: Entities, most: int | None) -> pl.DataFrame:
    """The table `users`: the `most` with most requests, or all."""
    met = pl.col("pairs") > 0
    table = entities.users.head(entities.users.height if most is None else most).select(
        "rank",
        pl.col("name").alias("user"),
        *_AMOUNTS,
        pl.when(met).then("pairs").alias("models"),
        "top_model",
        pl.when(met).then(pl.col("most") / pl.col("met")).alias("top_model_ratio"),
        *_MEDIANS,
        *_TIMES,
    )
    return narrowed(table)


def user_breadth(entities: Entities) -> pl.DataFrame:
    """The table `user_breadth`: how many users have how many requests to how many models (Figure 5b)."""
    shown = entities.users.filter(pl.col("requests") >= LEAST_REQUESTS, pl.col("pairs") > 1)
    return _grid(shown, {"requests": pl.col("requests"), "models": pl.col("pairs")})


def user_lengths(entities: Entities) -> pl.DataFrame:
    """The table `user_lengths`: how many users have which median input and output (Figure 6)."""
    shown = entities.users.filter(pl.col("requests") >= LEAST_REQUESTS, pl.col(_MEDIANS[0]).is_not_null())
    return _grid(shown, {name: pl.col(name).round().cast(pl.Int64) for name in _MEDIANS})


def _described(entities: pl.DataFrame) -> pl.DataFrame:
    """The known ones, ranked, with their tokens and shares."""
    known = entities.filter(pl.col("key") != keys.UNKNOWN).sort("requests", "name", descending=[True, False])
    tokens = [accounts.tokens(side).alias(f"{side}_tokens") for side in _SIDES]
    counted = known.with_columns(*tokens).with_columns(tokens=_together())
    return counted.with_columns(
        pl.int_range(1, pl.len() + 1).alias("rank"),
        (pl.col("requests") / pl.col("requests").sum()).alias("requests_ratio"),
        _share("tokens").alias("tokens_ratio"),
        *(pl.from_epoch(f"{end}_us", "us").alias(f"{end}_timestamp") for end in ("first", "last")),
    )


def _together() -> pl.Expr:
    """Known input and output tokens together; null where neither is known."""
    sides = [pl.col(f"{side}_tokens") for side in _SIDES]
    known = pl.any_horizontal(side.is_not_null() for side in sides)
    return pl.when(known).then(sides[0].fill_null(0) + sides[1].fill_null(0))


def _share(column: str) -> pl.Expr:
    amount, total = pl.col(column).cast(pl.Float64), pl.col(column).sum().cast(pl.Float64)
    return pl.when(total > 0).then(amount / total)


def _model_medians(state: State) -> pl.DataFrame:
    """`key` and the median of both sides."""
    described = state["model_lengths"]
    median = pl.Series("median", quantiles.quantiles(described, (0.5,), bits=BITS_BY_MODEL)[:, 0]).fill_nan(None)
    medians = described.select("column", "key", median)
    sides = [
        medians.filter(pl.col("column") == PAIRED[side]).select("key", pl.col("median").alias(f"median_{side}_tokens"))
        for side in _SIDES
    ]
    return sides[0].join(sides[1], on="key")


def _user_medians(state: State) -> list[pl.Series]:
    everyone = np.ones(state["users"].height, np.bool_)
    found = user_medians.medians(tallies(state, "lengths"), everyone)
    return [pl.Series(f"median_{side}_tokens", values).fill_nan(None) for side, values in zip(_SIDES, found, strict=True)]


def _grid(users: pl.DataFrame, columns: dict[str, pl.Expr]) -> pl.DataFrame:
    """Count users in cells: the buckets of a histogram of two values, which their middles stand for."""
    placed = users.select(**columns)
    cells = {name: histogram.bucket_indices(placed[name].to_numpy(), GRID_BITS) for name in columns}
    counted = pl.DataFrame(cells).group_by(list(columns)).agg(pl.len().cast(pl.Int64).alias("users")).sort(list(columns))
    return counted.with_columns(_middles(counted[name]) for name in columns)


def _middles(buckets: pl.Series) -> pl.Series:
    values: list[Any] = [histogram.bucket_middle(bucket, GRID_BITS) for bucket in buckets]
    return pl.Series(buckets.name, values, pl.Float64)
