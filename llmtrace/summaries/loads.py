"""The load of an instance in a second, and what the requests that begin then take.

The load is the tokens of all requests that begin on one instance in one second of the clock, as the paper's Figure 18 has it.
Requests are counted by it: in hexagons of the load and the tokens of a request (see `hexagons`) or in bands of the load alone,
each with a histogram of what they took. So the summary grows neither with requests nor with instances nor with seconds.

Parts are disjoint in time, so only the first and the last second of a part can go on beyond it. Their requests wait until their
load is known, counted by instance, bucket of tokens and bucket of what they took. Four tables hold a part:

    load_cells      closed seconds: `code` (ascending; see `load_kernels`), `count`
    load_bands      closed seconds by band of the load: `band`, `instance_seconds`, `requests`, `alone` (requests that have the
                    second of their instance to themselves)
    load_open       a row per open second and instance: `second_us`, `key`, `tokens` (at most 2^63 - 1), `requests`
    load_waiting    the requests of open seconds: `second_us`, `key`, `code`, `count`
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from llmtrace.summaries import cells, load_kernels
from llmtrace.summaries.cells import frozen
from llmtrace.summaries.interning import intern
from llmtrace.summaries.intervals import Interval
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.load_kernels import BAND_EDGES, BITS, LARGEST, VALUES, start_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.cells import Cells
    from llmtrace.summaries.groups import Integers
    from llmtrace.summaries.load_kernels import Codes, Counts, Loads, Totals

    Tables = Mapping[str, pl.DataFrame]

__all__ = ["BAND_EDGES", "BITS", "SCHEMAS", "Panel", "closed", "combine", "counted", "summarise"]

_SECOND = Interval.parse("1s")
_EDGES = 2
SCHEMAS: Mapping[str, Mapping[str, pl.DataType]] = {
    "load_cells": {"code": pl.UInt32(), "count": pl.UInt32()},
    "load_bands": dict.fromkeys(("band", "instance_seconds", "requests", "alone"), pl.Int64()),
    "load_open": {"second_us": pl.Int64(), "key": pl.UInt64(), "tokens": pl.Int64(), "requests": pl.Int64()},
    "load_waiting": {"second_us": pl.Int64(), "key": pl.UInt64(), "code": pl.UInt32(), "count": pl.Int64()},
}
"""The columns of each table of a part."""

_ONE_ROW = np.zeros(1, np.int64)


@dataclass(frozen=True)
class Panel:
    """What is counted by the load.

    Attributes:
        value: the column of what a request took: Int64, null where not known.
        size: the column of the tokens that make a hexagon with the load, where they are known and not zero; bands if None.
    """

    value: str
    size: str | None = None


def summarise(frame: pl.DataFrame, panels: Sequence[Panel], by: str, tokens: str) -> dict[str, pl.DataFrame]:
    """The four tables of a part.

    Args:
        frame: its requests in order of time, without nulls: `timestamp` in microseconds since 1970, the columns of the panels (-1
            where not known), and these.
        panels: what is counted; at most `load_kernels.MOST_PANELS`.
        by: the column of the instance's key; what is `UNKNOWN` counts nowhere.
        tokens: the column of a request's tokens: Int64, 0 where nothing is known.
    """
    named = frame.rename({by: "key", tokens: "tokens"})
    known = named if (named["key"] != UNKNOWN).all() else named.filter(pl.col("key") != UNKNOWN)
    borders, _ = _SECOND.runs(*frozen(known["timestamp"].to_numpy()))
    few = borders.size <= _EDGES + 1
    edges = known if few else pl.concat([known[: borders[1]], known[borders[-2] :]])
    return {**_inner(known, borders, panels), **_open(edges, panels)}


def combine(states: Sequence[Tables], panels: Sequence[Panel]) -> dict[str, pl.DataFrame]:
    """The four tables of all parts: seconds that meet at a border are united, and those now between others are closed."""
    seconds = _united([state["load_open"] for state in states])
    waiting = _added([state["load_waiting"] for state in states], "second_us", "key", "code")
    first, last = (pl.lit(edge, pl.Int64) for edge in (seconds["second_us"].min(), seconds["second_us"].max()))
    is_over = pl.col("second_us").is_between(first, last, closed="none")
    return {
        **_together([*states, _settled(seconds.filter(is_over), waiting.filter(is_over), panels)]),
        "load_open": seconds.filter(~is_over),
        "load_waiting": waiting.filter(~is_over),
    }


def closed(state: Tables, panels: Sequence[Panel]) -> dict[str, pl.DataFrame]:
    """`load_cells` and `load_bands` with the seconds that are still open."""
    return _together([state, _settled(state["load_open"], state["load_waiting"], panels)])


def counted(load_cells: pl.DataFrame, panel: int) -> pl.DataFrame:
    """The counts of a panel, given by its number.

    Returns:
        Per hexagon or band `place` (ascending), `requests`, and a histogram of what they took as `buckets` and `counts`.
    """
    codes = load_cells["code"].to_numpy()
    low, high = (int(np.searchsorted(codes, start_of(number))) for number in (panel, panel + 1))
    counts, places = load_cells["count"].to_numpy()[low:high], load_kernels.places_of(codes[low:high])
    found, starts = np.unique(places, return_index=True)
    requests = np.add.reduceat(counts, starts, dtype=np.int64) if starts.size else np.empty(0, np.int64)
    histograms = np.append(starts, places.size), (codes[low:high] % VALUES).astype(np.uint16), counts
    columns = [pl.Series("place", found.astype(np.int64)), pl.Series("requests", requests)]
    return pl.DataFrame([*columns, *cells.lists(histograms, "buckets")])


def _inner(known: pl.DataFrame, borders: Integers, panels: Sequence[Panel]) -> dict[str, pl.DataFrame]:
    """The seconds between the first and the last one, closed."""
    ids, distinct = intern(known["key"].to_numpy())
    ids, tokens, borders = frozen(ids, known["tokens"].to_numpy(), borders)
    loads, totals = load_kernels.loads_of(ids, distinct.size, tokens, borders)
    found = [_codes(known, panel, number, loads) for number, panel in enumerate(panels)]
    codes, counts = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return {"load_cells": _cells(codes, counts), "load_bands": _banded(totals)}


def _codes(known: pl.DataFrame, panel: Panel, number: int, loads: Loads) -> tuple[Codes, Counts]:
    if panel.size is None:
        return load_kernels.band_codes(number, loads, *frozen(known[panel.value].to_numpy()))
    sizes, values = frozen(known[panel.size].to_numpy(), known[panel.value].to_numpy())
    return load_kernels.hexagon_codes(number, loads, sizes, values)


def _open(rows: pl.DataFrame, panels: Sequence[Panel]) -> dict[str, pl.DataFrame]:
    """The tables of seconds that may go on beyond the part."""
    second = pl.col("timestamp") - pl.col("timestamp") % _SECOND.width_us
    dated = rows.with_columns(second.alias("second_us"), pl.lit(1, pl.Int64).alias("requests"))
    return {
        "load_open": _united([dated.select("second_us", "key", "tokens", "requests")]),
        "load_waiting": _added(
            [_waiting(dated, panel, number) for number, panel in enumerate(panels)], "second_us", "key", "code"
        ),
    }


def _waiting(rows: pl.DataFrame, panel: Panel, number: int) -> pl.DataFrame:
    """A row per request of a panel."""
    there = rows.filter(pl.col(panel.value) >= 0, *([] if panel.size is None else [pl.col(panel.size) > 0]))
    sizes = None if panel.size is None else there[panel.size].to_numpy()
    codes = load_kernels.waiting_codes(number, sizes, there[panel.value].to_numpy())
    return there.select("second_us", "key", pl.Series("code", codes), pl.col("requests").alias("count"))


def _united(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Tokens, which stop at `LARGEST`, and requests of each second and instance."""
    tokens = pl.col("tokens").cast(pl.Int128).sum().clip(upper_bound=LARGEST).cast(pl.Int64)
    labels = ["second_us", "key"]
    return pl.concat(frames).group_by(labels).agg(tokens, pl.col("requests").sum()).sort(labels)


def _added(frames: Sequence[pl.DataFrame], *labels: str) -> pl.DataFrame:
    """The sums of all other columns for each label, ascending."""
    return pl.concat(frames).group_by(labels).sum().sort(labels)


def _settled(seconds: pl.DataFrame, waiting: pl.DataFrame, panels: Sequence[Panel]) -> dict[str, pl.DataFrame]:
    """The seconds of `load_open` and the requests of `load_waiting`, counted by their load."""
    totals, requests = np.zeros((BAND_EDGES.size, 3), np.int64), seconds["requests"].to_numpy()
    bands = load_kernels.bands_of(seconds["tokens"].to_numpy())
    for place, amounts in enumerate((np.ones_like(requests), requests, requests == 1)):
        np.add.at(totals[:, place], bands, amounts)
    rows = waiting.join(seconds.select("second_us", "key", "tokens"), on=["second_us", "key"])
    in_hexagons = np.array([panel.size is not None for panel in panels])
    codes = load_kernels.settled(*frozen(rows["code"].to_numpy(), rows["tokens"].to_numpy(), in_hexagons))
    placed = _added([pl.DataFrame({"code": codes, "count": rows["count"]})], "code")
    return {"load_cells": _cells(placed["code"].to_numpy(), placed["count"].to_numpy()), "load_bands": _banded(totals)}


def _together(states: Sequence[Tables]) -> dict[str, pl.DataFrame]:
    """`load_cells` and `load_bands` of several."""
    return {
        "load_cells": reduce(_merged, [state["load_cells"] for state in states]),
        "load_bands": _added([state["load_bands"] for state in states], "band"),
    }


def _merged(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    if left.is_empty() or right.is_empty():
        return left if right.is_empty() else right
    _, codes, counts = cells.merge(_one_row(left), _ONE_ROW, _one_row(right), _ONE_ROW)
    return _cells(codes, counts)


def _one_row(frame: pl.DataFrame) -> Cells:
    return np.array([0, frame.height]), frame["code"].to_numpy(), frame["count"].to_numpy()


def _cells(codes: Codes, counts: npt.NDArray[np.integer[Any]]) -> pl.DataFrame:
    """Counts in 32 bits where all of them fit, else in 64."""
    dtype = np.uint64 if int(counts.max(initial=0)) >> 32 else np.uint32
    return pl.DataFrame({"code": codes, "count": counts.astype(dtype, copy=False)})


def _banded(totals: Totals) -> pl.DataFrame:
    there = np.flatnonzero(totals[:, 0])
    columns = zip(SCHEMAS["load_bands"], (there, *totals[there].T), strict=True)
    return pl.DataFrame(dict(columns), dict(SCHEMAS["load_bands"]))
