"""What requests take by the load of their instance in the second in which they begin (Figure 18 of the paper)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from llmtrace.analyses.latency.measures import PANELS
from llmtrace.summaries import hexagons, loads, profiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from llmtrace.result import Scalar

__all__ = ["HEXAGONS", "LEAST_REQUESTS", "in_hexagons", "left_out", "scalars", "tables"]

LEAST_REQUESTS = 30
"""A hexagon with fewer requests is not shown, as in the paper, and a band with fewer has no percentiles."""

HEXAGONS: Mapping[str, tuple[str, str]] = {"load_ttft": ("input_tokens", "ttft"), "load_decode": ("output_tokens", "decode")}
"""The tokens and the measure of each table of hexagons."""
_BANDED = ("ttft", "tpot")
_STEPS = {"ttft": 1e6, "decode": 1e6, "tpot": 1e9}
_PERCENTS, _TAIL = (50, 90), (50, 90, 99)


def tables(closed: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """`load`, `load_ttft` and `load_decode`, from what `loads.closed` gives."""
    return {"load": _bands(closed), **{name: in_hexagons(closed, name) for name in HEXAGONS}}


def scalars(closed: Mapping[str, pl.DataFrame]) -> dict[str, Scalar]:
    """How many requests begin together; None where no instance is known."""
    total = closed["load_bands"].sum().row(0, named=True)
    seconds, requests = total["instance_seconds"], total["requests"]
    return {
        "instance_seconds": seconds or None,
        "requests_per_instance_second": requests / seconds if seconds else None,
        "alone_ratio": total["alone"] / requests if requests else None,
    }


def left_out(closed: Mapping[str, pl.DataFrame], name: str) -> int:
    """How many requests are in hexagons with too few of them."""
    found = _counted(closed, name)["requests"]
    return int(found.filter(found < LEAST_REQUESTS).sum())


def in_hexagons(closed: Mapping[str, pl.DataFrame], name: str) -> pl.DataFrame:
    """One row per hexagon of a table of `HEXAGONS`: its centre, how many requests it has, and what they took."""
    tokens, measure = HEXAGONS[name]
    shown = _counted(closed, name).filter(pl.col("requests") >= LEAST_REQUESTS)
    load, size = hexagons.centres(shown["place"].to_numpy())
    return pl.DataFrame(
        {"load_tokens_per_s": load, tokens: size, "requests": shown["requests"], **dict(_percentiles(shown, measure, _PERCENTS))}
    ).sort("load_tokens_per_s", tokens)


def _counted(closed: Mapping[str, pl.DataFrame], name: str) -> pl.DataFrame:
    return loads.counted(closed["load_cells"], list(PANELS).index(name))


def _bands(closed: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """One row per band of the load that occurs."""
    bands = closed["load_bands"]
    place, edges = bands["band"].to_numpy(), pl.Series([*loads.BAND_EDGES.tolist(), None], dtype=pl.Int64)
    found = bands.select(
        "band",
        edges[place].alias("load_from_tokens_per_s"),
        edges[place + 1].alias("load_to_tokens_per_s"),
        "instance_seconds",
        "requests",
    )
    for measure in _BANDED:
        counted = _counted(closed, measure)
        enough = counted.filter(pl.col("requests") >= LEAST_REQUESTS)
        percentiles = enough.select("place").with_columns(**dict(_percentiles(enough, measure, _TAIL)))
        number = counted.select("place", pl.col("requests").alias(f"{measure}_requests"))
        columns = number.join(percentiles, on="place", how="left", maintain_order="left")
        found = found.join(columns, left_on="band", right_on="place", how="left", maintain_order="left").with_columns(
            pl.col(f"{measure}_requests").fill_null(0)
        )
    return found.drop("band")


def _percentiles(counted: pl.DataFrame, measure: str, percents: Sequence[int]) -> Iterator[tuple[str, pl.Series]]:
    values = profiles.percentiles(counted, percents) / _STEPS[measure]
    for place, percent in enumerate(percents):
        yield f"{measure}_p{percent}_s", pl.Series(values[:, place], dtype=pl.Float64)
