"""Visits: the runs of requests that a user sends to a model, and what links a request to the one before.

A visit ends after an hour of silence, at a border of six hours, or after 4,096 requests. Without users each session is a visit;
without sessions either, each request is. A part of the trace is looked at on its own: what crosses its border is cut there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from llmtrace.synth.draws import Ints

__all__ = ["ANEW", "BACK", "LONGEST_TURN", "MOST_REQUESTS", "ON", "SILENCE_US", "Visits", "turn_class", "visits"]

SILENCE_US = 3_600_000_000
MOST_REQUESTS = 4096
_SHIFT_US = 21_600_000_000
ON, ANEW, BACK = 0, 1, 2
"""A request goes on with the session of the request before it in its visit, begins one, or comes back to an earlier one: `BACK`
and the class of the turn that this one has reached."""
LONGEST_TURN = 7


class Visits(NamedTuple):
    """Arrays by request, ordered by visit and in it by time.

    `row` is the request's place in the frame; `place` its position in the visit, of which there are `size`; `gap_us` the time
    since the request before it in the visit, 0 for the first; `kind` one of `ON`, `ANEW`, `BACK` and on; `turns` the class of the
    turn of the request before it in the visit; `total` the tokens, input and output, of the session's request before, -1 if
    unknown.
    """

    row: Ints
    place: Ints
    size: Ints
    gap_us: Ints
    kind: Ints
    turns: Ints
    total: Ints


def turn_class(turn: Ints) -> Ints:
    """Turns by powers of two: 0, 1, 2-3, 4-7, ... as 0, 1, 2, 3, ... up to `LONGEST_TURN`."""
    return np.minimum(np.frexp(turn.astype(np.float64))[1], LONGEST_TURN).astype(np.int64)


def visits(frame: pl.DataFrame, columns: Collection[str]) -> Visits:
    """The visits of a frame in order of time; `columns` are those that the trace has."""
    someone = next((name for name in ("user", "session") if name in columns), None)
    rows = np.arange(frame.height)
    if someone is None:
        none, one = np.zeros(frame.height, np.int64), np.ones(frame.height, np.int64)
        return Visits(rows, none, one, none, none + ANEW, none, none - 1)
    key = _key(frame, someone, 1) ^ _key(frame, "model", 2, alone=False)
    row = np.argsort(key, kind="stable")
    time, key = frame["timestamp"].dt.epoch("us").to_numpy()[row], key[row]
    place, size, gap = _runs(time, key)
    kind, turns, total = _threads(frame, row, np.cumsum(place == 0))
    return Visits(row, place, size, gap, kind, turns, total)


def _key(frame: pl.DataFrame, column: str, seed: int, *, alone: bool = True) -> NDArray[np.uint64]:
    """Hashes of a column; a null stands for nobody else if `alone`, else for all nulls."""
    hashes = frame[column].hash(seed)
    if alone and frame[column].null_count():
        each = frame.select(pl.int_range(pl.len()).hash(seed + 100)).to_series()
        hashes = pl.select(pl.when(frame[column].is_null()).then(each).otherwise(hashes)).to_series()
    return hashes.to_numpy()


def _runs(time: Ints, key: NDArray[np.uint64]) -> tuple[Ints, Ints, Ints]:
    """Place in the visit, its size, and gaps, of requests ordered by key and time."""
    if not time.size:
        return time, time, time
    gap = np.diff(time, prepend=time[:1])
    begins = np.append(True, key[1:] != key[:-1]) | (gap > SILENCE_US) | (np.diff(time // _SHIFT_US, prepend=-1) != 0)
    begins |= _place(begins) % MOST_REQUESTS == 0
    starts = np.flatnonzero(begins)
    size = np.repeat(np.diff(np.append(starts, time.size)), np.diff(np.append(starts, time.size)))
    return _place(begins), size, np.where(begins, 0, gap)


def _place(begins: NDArray[np.bool_]) -> Ints:
    starts = np.flatnonzero(begins)
    return np.arange(begins.size) - np.repeat(starts, np.diff(np.append(starts, begins.size)))


def _threads(frame: pl.DataFrame, row: Ints, visit: Ints) -> tuple[Ints, Ints, Ints]:
    """Kind, class of the turn before in the visit, and total before in the session."""
    session = _key(frame, "session", 3)[row]
    inside = pl.DataFrame(
        {
            "visit": visit,
            "session": session,
            "at": np.arange(row.size),
            "total": (frame["input_tokens"] + frame["output_tokens"]).gather(row),
        }
    )
    thread = ("visit", "session")
    linked = inside.select(
        last=pl.col("at").shift(1).over(thread),
        turn=pl.int_range(pl.len(), dtype=pl.Int64).over(thread),
        total=pl.col("total").shift(1).over(thread).fill_null(-1),
    )
    last, turn = linked["last"].fill_null(-1).to_numpy(), linked["turn"].to_numpy()
    reached = BACK + turn_class(np.maximum(turn - 1, 0))
    kind = np.where(last < 0, ANEW, np.where(last == np.arange(row.size) - 1, ON, reached))
    return kind, turn_class(np.append(0, turn[:-1]) if turn.size else turn), linked["total"].to_numpy()
