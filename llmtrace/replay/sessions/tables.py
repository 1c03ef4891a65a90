"""The tables and scalars of `sessions`, from what was added up.

A session that has reached turn t has a request at every turn before it, so requests by turn say everything about lengths: as many
sessions end with turn t as requests at t are more than requests at t + 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.replay.sessions.tally import BITS, BITS_BY_MODEL
from llmtrace.summaries import ttl
from llmtrace.summaries.quantiles import quantiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from llmtrace.replay.sessions.probe import Probe
    from llmtrace.result import Scalar

__all__ = [
    "TOP_MODELS",
    "by_model",
    "gaps",
    "gaps_by_model",
    "highlighted",
    "lengths",
    "lengths_by_model",
    "quality",
    "scalars",
    "sensitivity",
    "turns",
]

TOP_MODELS = 3
"""How many models stand out, as in the paper."""

_SECOND_US = 1_000_000
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_STEPS = tuple(step / 100 for step in range(101))
_FIRST_TURNS = 4
_SUMS = ("input_tokens", "output_tokens", "prefix_tokens")
_LENGTHS = ("single_turn_share", "mean_turns", *(f"last_turn_{name}" for name in _QUANTILES), "last_turn_max")
_BY_MODEL = {
    "model": pl.String(),
    "requests": pl.Int64(),
    "sessions": pl.Int64(),
    "single_turn_share": pl.Float64(),
    "mean_turns": pl.Float64(),
    "structural_reuse": pl.Float64(),
    **{f"gap_{name}_s": pl.Float64() for name in _QUANTILES},
    **{f"last_turn_{name}": pl.Float64() for name in _QUANTILES},
    "last_turn_max": pl.Int64(),
}
_QUALITY = {
    "truth": pl.String(),
    "true_links": pl.Int64(),
    "found_links": pl.Int64(),
    "right_links": pl.Int64(),
    "precision": pl.Float64(),
    "recall": pl.Float64(),
    "related_ratio": pl.Float64(),
    "possible_ratio": pl.Float64(),
}
_SENSITIVITY = {
    "varied": pl.String(),
    "k": pl.Int64(),
    "max_gap_s": pl.Float64(),
    "sessions": pl.Int64(),
    "single_turn_share": pl.Float64(),
    "structural_reuse": pl.Float64(),
    "precision": pl.Float64(),
    "recall": pl.Float64(),
}


def scalars(requests: int, totals: pl.DataFrame, histogram: pl.DataFrame, judged: Probe) -> dict[str, Scalar]:
    """Every scalar, in reading order; None is "not known".

    Args:
        requests: all that were read.
        totals: sums by model and turn (`Tally.turns`).
        histogram: of all gaps.
        judged: the reconstruction, with its links as far as they are judged.
    """
    counts = _counts(totals)
    sums = totals.select(pl.col("requests", *_SUMS).sum()).row(0, named=True)
    sessions = int(counts[0]) if counts.size else 0
    first = {f"turn_{turn}_requests": int(counts[turn]) if turn < counts.size else 0 for turn in range(_FIRST_TURNS)}
    return {
        "requests": requests,
        "session_requests": sums["requests"],
        "sessions": sessions,
        **(_by_turn(totals).select(_lengths()).row(0, named=True) if counts.size else dict.fromkeys(_LENGTHS)),
        "last_turn_mean": None if not sessions else sums["requests"] / sessions - 1,
        **first,
        "input_tokens": sums["input_tokens"],
        "prefix_tokens": sums["prefix_tokens"],
        "structural_reuse": _ratio(sums["prefix_tokens"], sums["input_tokens"]),
        **_gaps(histogram, BITS),
        "link_precision": judged.verdict.precision,
        "link_recall": judged.verdict.recall,
    }


def turns(totals: pl.DataFrame) -> pl.DataFrame:
    """One row per turn: how many requests, how many of them are continued, and their mean tokens."""
    table = _by_turn(totals)
    requests, sums = pl.col("requests"), {name: pl.col(name).cast(pl.Float64) for name in _SUMS}
    following = requests.shift(-1, fill_value=0)
    return table.select(
        "turn",
        "requests",
        (requests / requests.sum()).alias("requests_ratio"),
        (requests - following).alias("ended_sessions"),
        (following / requests).alias("continued_ratio"),
        *((total / requests).alias(f"mean_{name}") for name, total in sums.items()),
        _quotient(sums["prefix_tokens"], sums["input_tokens"]).alias("reuse_ratio"),
    )


def lengths(totals: pl.DataFrame) -> pl.DataFrame:
    """One row per length that a session has, in turns."""
    return _length_table(_counts(totals))


def gaps(by_step: pl.DataFrame, totals: pl.DataFrame) -> pl.DataFrame:
    """One row per step of a grid of times, up to the first that no gap is longer than."""
    steps = pl.DataFrame({"step": pl.int_range(ttl.TTLS_US.size + 1, dtype=pl.UInt8, eager=True)})
    known = steps.join(by_step, on="step", how="left", maintain_order="left").fill_null(0)
    last = by_step["step"].max()
    rows = 0 if not isinstance(last, int) else min(last + 1, ttl.TTLS_US.size)
    counts, prefixes = (known[name].cum_sum().cast(pl.Float64).to_numpy() for name in ("gaps", "input_tokens"))
    inputs = totals["input_tokens"].sum()
    with np.errstate(invalid="ignore", divide="ignore"):
        columns = {
            "gap_s": ttl.TTLS_US[:rows] / _SECOND_US,
            "gaps": known["gaps"].cum_sum()[:rows],
            "covered_ratio": (counts / counts[-1])[:rows],
            "prefix_covered_ratio": (prefixes / prefixes[-1])[:rows],
            "structural_reuse": (prefixes / float(inputs))[:rows],
        }
    return pl.DataFrame(columns).with_columns(pl.col(pl.Float64).fill_nan(None))


def by_model(totals: pl.DataFrame, histograms: pl.DataFrame) -> pl.DataFrame:
    """One row per model, those with most requests first; none if the trace names no models.

    Args:
        totals: sums by model and turn.
        histograms: of gaps, by model.
    """
    models = _models(totals)
    described = totals.group_by("key").agg(_lengths())
    times = pl.DataFrame(
        quantiles(histograms, list(_QUANTILES.values()), bits=BITS_BY_MODEL) / _SECOND_US,
        [f"gap_{name}_s" for name in _QUANTILES],
    ).with_columns(histograms["key"])
    sums = {name: pl.col(name).cast(pl.Float64) for name in _SUMS}
    return (
        models.join(described, on="key", how="left", maintain_order="left")
        .join(times, on="key", how="left", maintain_order="left")
        .with_columns(_quotient(sums["prefix_tokens"], sums["input_tokens"]).alias("structural_reuse"))
        .select(pl.col(name).cast(dtype) for name, dtype in _BY_MODEL.items())
    )


def highlighted(totals: pl.DataFrame, wanted: Sequence[str]) -> dict[int, str]:
    """Key and name of the models to compare: those that are wanted, else the ones with most requests."""
    models = dict(_models(totals).select("model", "key").iter_rows())
    names = [name for name in dict.fromkeys(wanted) if name in models] if wanted else list(models)[:TOP_MODELS]
    return {models[name]: name for name in names}


def lengths_by_model(totals: pl.DataFrame, chosen: dict[int, str]) -> pl.DataFrame:
    """`lengths` of the models to compare."""
    found = [_length_table(_counts(totals.filter(pl.col("key") == key)), model) for key, model in chosen.items()]
    return pl.concat([_length_table(np.zeros(0, np.int64), ""), *found])


def gaps_by_model(histograms: pl.DataFrame, chosen: dict[int, str]) -> pl.DataFrame:
    """Quantiles of gaps, by hundredths, of the models to compare that have any."""
    found = [pl.DataFrame(schema={"model": pl.String, "cumulative_ratio": pl.Float64, "gap_s": pl.Float64})]
    for key, model in chosen.items():
        values = quantiles(histograms.filter(pl.col("key") == key), _STEPS, bits=BITS_BY_MODEL).ravel() / _SECOND_US
        some = pl.DataFrame({"cumulative_ratio": _STEPS[: values.size], "gap_s": values})
        found.append(some.select(pl.lit(model).alias("model"), "cumulative_ratio", "gap_s"))
    return pl.concat(found)


def quality(probes: Iterable[Probe]) -> pl.DataFrame:
    """One row per truth that the reconstruction is judged by."""
    rows = [
        (
            probe.truth.name,
            probe.verdict.true_links,
            probe.verdict.found_links,
            probe.verdict.right_links,
            probe.verdict.precision,
            probe.verdict.recall,
            _ratio(probe.verdict.related_links, probe.verdict.found_links),
            _ratio(probe.verdict.possible_links, probe.verdict.true_links),
        )
        for probe in probes
        if probe.truth
    ]
    return pl.DataFrame(rows, _QUALITY, orient="row")


def sensitivity(probes: Iterable[tuple[str, Probe]]) -> pl.DataFrame:
    """One row per rule that was tried, with what of it was varied."""
    rows = [
        (
            varied,
            probe.rule.k,
            probe.rule.max_gap_s,
            probe.turns[0],
            _ratio(probe.turns[0] - probe.turns[1], probe.turns[0]),
            _ratio(probe.prefix_tokens, probe.input_tokens),
            probe.verdict.precision,
            probe.verdict.recall,
        )
        for varied, probe in probes
    ]
    return pl.DataFrame(rows, _SENSITIVITY, orient="row")


def _models(totals: pl.DataFrame) -> pl.DataFrame:
    """Sums by model that has a name, with its `sessions`, those with most requests first."""
    named = totals.filter(pl.col("model").is_not_null())
    first = pl.col("requests").filter(pl.col("turn") == 0).sum().alias("sessions")
    sums = named.group_by("key", "model").agg(pl.col("requests", *_SUMS).sum(), first)
    return sums.sort("requests", "model", descending=[True, False])


def _by_turn(totals: pl.DataFrame) -> pl.DataFrame:
    return totals.group_by("turn").agg(pl.col("requests", *_SUMS).sum()).sort("turn")


def _counts(totals: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Requests at turn 0, 1, ..."""
    return _by_turn(totals)["requests"].to_numpy()


def _lengths() -> list[pl.Expr]:
    """What lengths of sessions are like, from `requests` by `turn`."""
    requests, turn = pl.col("requests"), pl.col("turn")
    sessions = requests.filter(turn == 0).first()
    return [
        ((sessions - requests.filter(turn == 1).sum()) / sessions).alias("single_turn_share"),
        (requests.sum() / sessions).alias("mean_turns"),
        *(_last_turn(at, sessions).alias(f"last_turn_{name}") for name, at in _QUANTILES.items()),
        turn.max().cast(pl.Int64).alias("last_turn_max"),
    ]


def _last_turn(at: float, sessions: pl.Expr) -> pl.Expr:
    """A quantile of last turns, linear between ranks.

    Of sessions in order of their last turns, that of rank r, from 0, reaches all turns that more than `sessions - r - 1` reach.
    """
    rank = (sessions - 1) * at
    later = pl.col("requests").filter(pl.col("turn") > 0)
    below, above = ((later >= sessions - whole).sum().cast(pl.Float64) for whole in (rank.floor(), rank.ceil()))
    return below + (above - below) * (rank - rank.floor())


def _gaps(histogram: pl.DataFrame, bits: int) -> dict[str, Scalar]:
    names = [f"gap_{name}_s" for name in _QUANTILES]
    values = quantiles(histogram, list(_QUANTILES.values()), bits=bits).ravel() / _SECOND_US
    return dict.fromkeys(names) if not values.size or np.isnan(values).any() else dict(zip(names, values.tolist(), strict=True))


def _length_table(counts: npt.NDArray[np.int64], model: str | None = None) -> pl.DataFrame:
    ended = -np.diff(counts, append=0) if counts.size else counts
    occurring = np.flatnonzero(ended)
    sessions = ended[occurring]
    total = max(int(sessions.sum()), 1)
    names = {} if model is None else {"model": pl.Series([model], dtype=pl.String).new_from_index(0, sessions.size)}
    return pl.DataFrame(
        {
            **names,
            "turns": occurring + 1,
            "sessions": sessions,
            "sessions_ratio": sessions / total,
            "cumulative_ratio": np.cumsum(sessions) / total,
            "at_least_ratio": np.cumsum(sessions[::-1])[::-1] / total,
        }
    )


def _quotient(numerator: pl.Expr, denominator: pl.Expr) -> pl.Expr:
    return pl.when(denominator > 0).then(numerator / denominator)


def _ratio(numerator: float, denominator: float) -> float | None:
    """The quotient; None where the denominator is zero."""
    return numerator / denominator if denominator else None
