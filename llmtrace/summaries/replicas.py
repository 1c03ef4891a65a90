"""On how many instances the requests of one and the same party are served within a window, by the load at that time.

A party is whoever a prefix cache remembers: a user or a session, with one model. In a window of the clock each of the instances
that its requests go to holds a copy of its context, taken as large as the largest request there. *Physical* tokens are those of
all copies, *logical* tokens those of the largest copy of each party, so that physical over logical is how often the same context
is held (the paper's replication, with the party in place of a session). What to hold against the number of copies is `scattered`:
the number there would be if each request went to any instance of its model that is active in the window, n·(1 - (1 - 1/n)^k) for
k requests and n instances.

A *cell* is a window and a model. Its load is that of the model, in tokens per second, or of the mean active instance. Both are
counted in bands (see `loads`), so that a summary grows with windows and models, not with cells. Only the first and the last
window of a part can go on beyond it. Four tables hold a part:

    windows         closed windows: `time` (start, ascending) and `TOTALS`
    spread_bands    closed windows by band: `axis` (place in `AXES`), `band`, `cells` and `TOTALS`, over cells with a known party
    spread_models   closed windows by model: `model` (ascending), `cells` and `TOTALS`, likewise
    open_windows    a row per open window, party, model and instance, in order of first requests: `window_us`, `party` (`UNKNOWN`
                    where it is), `model`, `instance`, `requests`, `tokens`, `largest`
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries.cells import frozen
from llmtrace.summaries.frames import frame_of
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.loads import BAND_EDGES
from llmtrace.summaries.within import added, counted, greatest, mixed, runs_of, within

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.groups import Ids, Integers, Keys
    from llmtrace.summaries.intervals import Interval
    from llmtrace.summaries.within import Within

    Tables = Mapping[str, pl.DataFrame]
    Columns = Mapping[str, Integers]

__all__ = ["AXES", "SCATTER_STEPS", "SCHEMAS", "TOTALS", "closed", "combine", "summarise"]

AXES = ("model", "instance")
"""Whose load makes the bands: the tokens per second of a model, or of its mean active instance."""
SCATTER_STEPS = 1 << 20
"""`scattered` is a sum of whole steps, of which so many make one instance."""

TOTALS: Mapping[str, pl.DataType] = {
    **dict.fromkeys(("instances", "parties", "requests", "copies"), pl.Int64()),
    **dict.fromkeys(("scattered", "physical", "logical", "tokens"), pl.Int128()),
}
"""Sums over cells: active instances; parties, their requests and copies, and how many copies if scattered; tokens of the copies,
and of the largest of each party; tokens of all requests, those of unknown parties too."""
_EDGES, _BATCH_ROWS = 2, 1 << 17
_ROWS = ("party", "model", "instance", "requests", "tokens", "largest")
SCHEMAS: Mapping[str, Mapping[str, pl.DataType]] = {
    "windows": {"time": pl.Datetime("us"), **TOTALS},
    "spread_bands": {"axis": pl.Int8(), "band": pl.Int64(), "cells": pl.Int64(), **TOTALS},
    "spread_models": {"model": pl.UInt64(), "cells": pl.Int64(), **TOTALS},
    "open_windows": {
        "window_us": pl.Int64(),
        **dict.fromkeys(_ROWS[:3], pl.UInt64()),
        **dict.fromkeys(_ROWS[3:], pl.Int64()),
    },
}
"""The columns of each table of a state."""


def summarise(times_us: Integers, rows: pl.DataFrame, window: Interval) -> dict[str, pl.DataFrame]:
    """The four tables of a part.

    Args:
        times_us: arrivals, ascending.
        rows: of each request `party`, `model` and `instance` (keys, that of the instance known), `requests` (1), `tokens` and
            `largest` (its tokens, both).
        window: its width.
    """
    borders, starts = window.runs(times_us)
    if borders.size <= _EDGES + 1:
        return {**_closed(pl.DataFrame(schema=SCHEMAS["open_windows"]), window), "open_windows": _gathered(rows, borders, starts)}
    edges = pl.concat([rows[: borders[1]], rows[borders[-2] :]]).rechunk()
    ends = np.array([0, borders[1], edges.height])
    between = [_closed(_gathered(*batch), window) for batch in _batches(rows, borders[1:-1], starts[1:-1])]
    return {**_together(between), "open_windows": _gathered(edges, ends, starts[[0, -1]])}


def combine(states: Sequence[Tables], window: Interval) -> dict[str, pl.DataFrame]:
    """The four tables of all parts: windows that meet at a border are united, and those now between others are closed."""
    rows = pl.concat([state["open_windows"] for state in states]).rechunk()
    windows = rows["window_us"].to_numpy()
    borders = runs_of(windows)
    found = _split(_gathered(rows, borders, windows[borders[:-1]]), window)
    return _together([*states, found]) | {"open_windows": found["open_windows"]}


def closed(state: Tables, window: Interval) -> dict[str, pl.DataFrame]:
    """All but `open_windows`, with the windows that are still open."""
    return _together([state, _closed(state["open_windows"], window)])


def _batches(rows: pl.DataFrame, borders: Integers, starts: Integers) -> Iterator[tuple[pl.DataFrame, Integers, Integers]]:
    """Some windows after the other, so few that what is made of them on the way takes little memory."""
    first = 0
    while first < starts.size:
        last = max(int(np.searchsorted(borders, borders[first] + _BATCH_ROWS, "right")) - 1, first + 1)
        yield rows[borders[first] : borders[last]], borders[first : last + 1] - borders[first], starts[first:last]
        first = last


def _together(states: Sequence[Tables]) -> dict[str, pl.DataFrame]:
    bands = pl.concat([state["spread_bands"] for state in states])
    models = pl.concat([state["spread_models"] for state in states])
    return {
        "windows": pl.concat([state["windows"] for state in states]).sort("time"),
        "spread_bands": bands.group_by("axis", "band").sum().sort("axis", "band"),
        "spread_models": models.group_by("model").sum().sort("model"),
    }


def _gathered(rows: pl.DataFrame, borders: Integers, starts: Integers) -> pl.DataFrame:
    """A row per window, party, model and instance, in order of first requests, from rows in order of time."""
    keys = [rows[name].to_numpy() for name in _ROWS[:3]]
    found = within(mixed(*keys), borders)
    groups = found.firsts.size
    columns = {"window_us": np.repeat(starts, np.diff(found.borders))}
    columns |= {name: key[found.firsts] for name, key in zip(_ROWS, keys, strict=False)}
    columns |= {name: added(found.ids, rows[name].to_numpy(), groups) for name in ("requests", "tokens")}
    return frame_of({**columns, "largest": greatest(found.ids, rows["largest"].to_numpy(), groups)})


def _split(rows: pl.DataFrame, window: Interval) -> dict[str, pl.DataFrame]:
    """The windows between the first and the last one closed, these two open."""
    borders = runs_of(rows["window_us"].to_numpy())
    first, last = (int(borders[1]), int(borders[-2])) if borders.size > _EDGES + 1 else (rows.height, rows.height)
    return {**_closed(rows[first:last], window), "open_windows": pl.concat([rows[:first], rows[last:]])}


def _closed(rows: pl.DataFrame, window: Interval) -> dict[str, pl.DataFrame]:
    """All but `open_windows`, from the rows of whole windows."""
    windows = rows["window_us"].to_numpy()
    borders = runs_of(windows)
    if rows.is_empty():
        return {name: pl.DataFrame(schema=SCHEMAS[name]) for name in SCHEMAS if name != "open_windows"}
    totals, models, cells = _cells(rows, borders)
    sums = {name: np.add.reduceat(values, cells[:-1]) for name, values in totals.items()}
    return {
        "windows": _typed({"time": windows[borders[:-1]], **sums}, "windows"),
        **_known(totals, models, window),
    }


def _cells(rows: pl.DataFrame, borders: Integers) -> tuple[Columns, Keys, Integers]:
    """The `TOTALS` and the model of each cell, window by window, and where the cells of each window begin."""
    party, model, instance, requests, tokens, largest = (rows[name].to_numpy() for name in _ROWS)
    pools = within(mixed(model, instance), borders)
    cells = within(model[pools.firsts], pools.borders)
    cell_of, count = cells.ids[pools.ids], cells.firsts.size
    instances = counted(cells.ids, count)
    known = np.flatnonzero(party != UNKNOWN)
    parties = within(mixed(party[known], model[known]), np.searchsorted(known, borders))
    of_parties = _parties(parties, requests[known], largest[known])
    cell = cell_of[known[parties.firsts]]
    of_parties["scattered"] = _scattered(*frozen(of_parties["requests"], instances[cell]))
    totals = {name: added(cell, values, count) for name, values in of_parties.items()}
    totals |= {"instances": instances, "tokens": added(cell_of, tokens, count)}
    return totals, model[pools.firsts[cells.firsts]], cells.borders


def _parties(parties: Within, requests: Integers, largest: Integers) -> dict[str, Integers]:
    """What is known of each party in each window, from its rows."""
    count = parties.firsts.size
    return {
        "parties": np.ones(count, np.int64),
        "requests": added(parties.ids, requests, count),
        "copies": counted(parties.ids, count),
        "physical": added(parties.ids, largest, count),
        "logical": greatest(parties.ids, largest, count),
    }


def _known(totals: Columns, models: Keys, window: Interval) -> dict[str, pl.DataFrame]:
    """`spread_bands` and `spread_models` from cells, those without a known party left out."""
    known = np.flatnonzero(totals["parties"])
    amounts = {name: totals[name][known] for name in TOTALS} | {"cells": np.ones_like(known)}
    loads = {"model": amounts["tokens"] / window.seconds, "instance": amounts["tokens"] / window.seconds / amounts["instances"]}
    bands = [_summed(place, _bands_of(loads[axis]), amounts) for place, axis in enumerate(AXES)]
    found = within(models[known], np.array([0, known.size]))
    sums = {name: added(found.ids, values, found.firsts.size) for name, values in amounts.items()}
    by_model = _typed({"model": models[known][found.firsts], **sums}, "spread_models")
    return {"spread_bands": pl.concat(bands), "spread_models": by_model.sort("model")}


def _summed(axis: int, bands: Ids, amounts: Columns) -> pl.DataFrame:
    sums = {name: added(bands, values, BAND_EDGES.size) for name, values in amounts.items()}
    there = np.flatnonzero(sums["cells"])
    columns = {"axis": np.full(there.size, axis), "band": there} | {name: values[there] for name, values in sums.items()}
    return _typed(columns, "spread_bands")


def _bands_of(loads: npt.NDArray[np.float64]) -> Ids:
    return (np.searchsorted(BAND_EDGES, loads, "right") - 1).astype(np.uint32)


def _typed(columns: Mapping[str, npt.NDArray[Any]], table: str) -> pl.DataFrame:
    return frame_of(columns).select(*SCHEMAS[table]).cast(pl.Schema(SCHEMAS[table]))


@njit(nogil=True, cache=True)
def _scattered(requests: Integers, instances: Integers) -> Integers:
    """How many instances each party would be expected on if its requests went anywhere, in steps."""
    steps = np.empty(requests.size, np.int64)
    for row in range(requests.size):
        number = instances[row]
        share = 1.0 if number == 1 else -math.expm1(requests[row] * math.log1p(-1.0 / number))
        steps[row] = int(number * share * SCATTER_STEPS + 0.5)
    return steps
