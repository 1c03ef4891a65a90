"""Visits, against a plain loop over requests."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.synth.twin.visits import ANEW, BACK, ON, visits

START = datetime(2025, 1, 1)
REQUESTS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 50, 4000]),
        st.sampled_from(["a", "b", None]),
        st.sampled_from(["m", None]),
        st.sampled_from(["s", "t", "u", None]),
    ),
    max_size=40,
)


def framed(requests: list[tuple[Any, ...]]) -> pl.DataFrame:
    now, rows = START, []
    for place, (gap, user, model, session) in enumerate(requests):
        now += timedelta(seconds=gap)
        rows.append((now, user, model, session, 100 + place, 7))
    names = ("timestamp", "user", "model", "session", "input_tokens", "output_tokens")
    dtypes = (pl.Datetime("us"), pl.String(), pl.String(), pl.String(), pl.Int64(), pl.Int64())
    return pl.DataFrame(rows, dict(zip(names, dtypes, strict=True)), orient="row")


def expected(frame: pl.DataFrame) -> dict[int, tuple[int, int, int, int, int]]:
    """By row: place, size, gap in seconds, kind and total before."""
    told: dict[int, tuple[int, int, int, int, int]] = {}
    rows = list(enumerate(frame.iter_rows(named=True)))
    keyed = sorted(((row["user"] or f"nobody {number}", row["model"] or "", number), row) for number, row in rows)
    for _, pair in groupby(keyed, key=lambda entry: entry[0][:2]):
        visit: list[tuple[int, dict[str, Any]]] = []
        every = []
        for (_, _, number), row in pair:
            if visit and not continues(visit[-1][1]["timestamp"], row["timestamp"]):
                every.append(visit)
                visit = []
            visit.append((number, row))
        for one in [*every, visit]:
            told |= inside(one)
    return told


def continues(before: datetime, now: datetime) -> bool:
    border = (before - datetime(1970, 1, 1)) // timedelta(hours=6) == (now - datetime(1970, 1, 1)) // timedelta(hours=6)
    return border and now - before <= timedelta(hours=1)


def inside(visit: list[tuple[int, dict[str, Any]]]) -> dict[int, tuple[int, int, int, int, int]]:
    told: dict[int, tuple[int, int, int, int, int]] = {}
    last: dict[str, int] = {}
    turns: dict[str, int] = {}
    for place, (number, row) in enumerate(visit):
        session = row["session"] or f"none {number}"
        before = last.get(session)
        gap = (row["timestamp"] - visit[place - 1][1]["timestamp"]) // timedelta(microseconds=1) if place else 0
        turns[session] = turns.get(session, -1) + 1
        reached = min((turns[session] - 1).bit_length(), 7)
        kind = ANEW if before is None else ON if before == place - 1 else BACK + reached
        total = -1 if before is None else visit[before][1]["input_tokens"] + 7
        told[number] = (place, len(visit), gap, kind, total)
        last[session] = place
    return told


@given(REQUESTS)
def test_visits_are_those_of_a_plain_loop(requests: list[tuple[Any, ...]]) -> None:
    frame = framed(requests)
    found = visits(frame, frame.columns)
    columns = (found.row, found.place, found.size, found.gap_us, found.kind, found.total)
    told = {row: tuple(rest) for row, *rest in zip(*(column.tolist() for column in columns), strict=True)}
    assert told == expected(frame)


def test_without_users_and_sessions_each_request_is_a_visit() -> None:
    frame = framed([(0, None, "m", None)] * 5)
    found = visits(frame, ["timestamp", "model"])
    assert found.size.tolist() == [1] * 5
    assert found.kind.tolist() == [ANEW] * 5
