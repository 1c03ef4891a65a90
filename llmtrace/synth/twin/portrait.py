"""Portrait: exactly what a twin carries of its original, with what is too rare to be carried merged into other things."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from llmtrace.errors import UsageError
from llmtrace.synth.twin.counts import Counts, table

if TYPE_CHECKING:
    from llmtrace.synth.draws import Floats, Ints
    from llmtrace.synth.twin.counts import Table
    from llmtrace.synth.twin.study import Grid, Study

__all__ = ["DRAWN", "Mark", "Pools", "Portrait", "portrait"]

MOST_MODELS = 1000
OTHER, ERROR, OK = "other", "error", "ok"
DRAWN = (
    "returns", "between", "size", "within", "kind", "length", "input_in_bin", "output_in_bin", "growth", "answer", "marks",
    "hits", "ttft", "duration",
)  # fmt: skip
"""The distributions that a twin is drawn from, in the order in which its table has them."""


class Mark(NamedTuple):
    """What requests have in common that are marked alike; `nulls` has a bit per column of `study.NULLABLE`."""

    endpoint: str | None
    status: str | None
    stream: bool | None
    nulls: int


class Pools(NamedTuple):
    """Who and what belongs to each model.

    `nobody` is the share of a model's requests that name no user, `instances` how many serve it; `models_of` how many models each
    user has, in groups of users; `all_instances` how many instances there are at all.
    """

    nobody: Floats
    instances: Ints
    models_of: Ints
    all_instances: int


@dataclass(frozen=True)
class Portrait:
    """What a twin is drawn from.

    Attributes:
        columns: canonical columns of the original.
        grid: intervals of the rates.
        requests: requests of the original.
        names: of the twin's models, busiest first; None for requests without one.
        starts: cells (model, interval) with the visits that begin there.
        rows: the same cells with the requests of those visits.
        table: distributions (`DRAWN`); a model without one of its own takes that of all.
        marks: endpoint, status, streaming and nulls, as the table `marks` numbers them.
        pools: users and instances.
        tick_us: resolution of the clock.
        cached_step: cached tokens are multiples of it.
        merged_models: how many models were too rare and became one.
        min_users: how many people a thing must be used by to be carried as one of its own.
    """

    columns: frozenset[str]
    grid: Grid
    requests: int
    names: tuple[str | None, ...]
    starts: Counts
    rows: Counts
    table: Table
    marks: tuple[Mark, ...]
    pools: Pools
    tick_us: int
    cached_step: int
    merged_models: int
    min_users: int


def portrait(study: Study, min_users: int = 5) -> Portrait:
    """What of a study may be carried: models, words and groups of users only with `min_users` people, or more, behind them.

    People are users; where the trace has none sessions, else requests.

    Raises:
        UsageError: if `min_users` is below 1.
    """
    if min_users < 1:
        raise UsageError(f"--min-users {min_users}: out of range", "Give a number of users from 1 on.")
    merged, names, rare = _merged(study, min_users)
    counts = {name: one.of_models(merged) for name, one in study.counts.items() if name != "margin"}
    return Portrait(
        columns=study.columns,
        grid=study.grid,
        requests=int(study.requests.counts.sum()),
        names=names,
        starts=counts["starts"],
        rows=counts["rows"],
        table=table([counts[name] for name in DRAWN], len(names), min_users),
        marks=_marks(study, min_users),
        pools=_pools(study, merged, len(names), min_users),
        tick_us=max(study.tick_us, 1),
        cached_step=max(study.cached_step, 1),
        merged_models=rare,
        min_users=min_users,
    )


def _merged(study: Study, least: int) -> tuple[Ints, tuple[str | None, ...], int]:
    """The twin's number of each model, the twin's names, and how many models share the name `other`."""
    requests, people = np.zeros(len(study.models), np.int64), _people(study)
    requests[study.requests.cells] = study.requests.counts
    order = np.lexsort((np.arange(requests.size), -requests))
    kept = [int(model) for model in order if people[model] >= least][:MOST_MODELS]
    rare = [int(model) for model in order if int(model) not in set(kept)]
    merged = np.empty(requests.size, np.int64)
    merged[kept] = np.arange(len(kept))
    alone = bool(kept) and _together(study, rare) < least
    merged[rare] = len(kept) - 1 if alone else len(kept)
    unnamed = study.models.get(None)
    width = len(str(max(len(kept), 1)))
    names = [None if model == unnamed else f"model-{place + 1:0{width}}" for place, model in enumerate(kept)]
    names += [] if alone or not rare else [None if set(rare) == {unnamed} else OTHER]
    return merged, tuple(names), len(rare)


def _people(study: Study) -> Ints:
    """Users by model; without users, requests."""
    counts = np.zeros(len(study.models), np.int64)
    if "user" not in study.columns or study.people is None:
        counts[study.requests.cells] = study.requests.counts
        return counts
    found = study.people.group_by("model").len()
    counts[found["model"].to_numpy()] = found["len"].to_numpy()
    return counts


def _together(study: Study, models: list[int]) -> int:
    """How many people use any of some models."""
    if "user" not in study.columns or study.people is None:
        return int(_people(study)[models].sum())
    return study.people.filter(pl.col("model").is_in(models))["who"].n_unique()


def _marks(study: Study, least: int) -> tuple[Mark, ...]:
    """The marks, with words that too few people use replaced."""
    known = {}
    if study.words is not None:
        counts = study.words.group_by("column", "word").len().filter(pl.col("len") >= least)
        known = {"endpoint": set(), "status": {OK}} | {
            str(column[0]): {*words["word"], *({OK} if column[0] == "status" else ())}
            for column, words in counts.partition_by("column", as_dict=True).items()
        }
    told = []
    for endpoint, status, stream, nulls in study.marks:
        place = endpoint if endpoint is None or endpoint in known["endpoint"] else OTHER
        word = status if status is None or status in known["status"] else ERROR
        told.append(Mark(place, word, stream, nulls))
    return tuple(told)


def _pools(study: Study, merged: Ints, models: int, least: int) -> Pools:
    every, nobody = np.zeros(models), np.zeros(models)
    np.add.at(every, merged[study.requests.cells], study.requests.counts)
    np.add.at(nobody, merged[study.nobody.cells], study.nobody.counts)
    models_of, instances, all_instances = np.empty(0, np.int64), np.zeros(models, np.int64), 0
    if study.people is not None:
        pairs = study.people.select("who", model=pl.Series(merged).gather(study.people["model"])).unique()
        degree = np.sort(pairs.group_by("who").len()["len"].to_numpy())[::-1]
        models_of = np.round(_grouped(degree.astype(np.float64), least)).astype(np.int64)
    if study.served is not None:
        served = study.served.with_columns(model=pl.Series(merged).gather(study.served["model"]))
        instances, all_instances = _distinct(served, "instance", models), served["instance"].n_unique()
    return Pools(nobody / np.maximum(every, 1), instances, models_of, all_instances)


def _distinct(pairs: pl.DataFrame, column: str, models: int) -> Ints:
    counts = np.zeros(models, np.int64)
    found = pairs.group_by("model").agg(pl.col(column).n_unique().cast(pl.Int64))
    counts[found["model"].to_numpy()] = found[column].to_numpy()
    return counts


def _grouped(weights: Floats, least: int) -> Floats:
    """Weights in descending order, each replaced by the mean of its group of `least`; the last group may be larger."""
    groups = np.minimum(np.arange(weights.size) // least, max(weights.size // least - 1, 0))
    sums = np.bincount(groups, weights) / np.maximum(np.bincount(groups), 1) if weights.size else weights
    return np.asarray(sums[groups])
