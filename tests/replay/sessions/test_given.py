"""Given sessions: a dictionary of last requests is the oracle, wherever the trace is cut."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.replay.sessions.given import Given
from llmtrace.replay.sessions.requests import Requests, Turns

Row = tuple[int, int, int, int]
ROWS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 4), st.integers(0, 40), st.integers(-1, 60)), max_size=80).map(
    sorted
)


def expected(rows: list[Row]) -> list[tuple[int, int, int, int]]:
    last: dict[int, tuple[int, int, int, int]] = {}
    found = []
    for time_us, key, input_tokens, total in rows:
        if total < 0:
            found.append((-1, -1, 0, -1))
            continue
        if key in last:
            session, turn, before, then = last[key]
            turn += 1
            found.append((session, turn, min(before, input_tokens), time_us - then))
        else:
            session, turn = len(last), 0
            found.append((session, turn, 0, -1))
        last[key] = (session, turn, total, time_us)
    return found


@given(rows=ROWS, cuts=st.lists(st.integers(0, 80), max_size=3))
def test_a_request_continues_the_one_before_it(rows: list[Row], cuts: list[int]) -> None:
    time_us, key, input_tokens, total = np.array(rows, np.int64).reshape(-1, 4).T.copy()
    endpoint = np.zeros(key.size, np.uint32)
    linker = Given()
    lots = []
    for first, end in itertools.pairwise([0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]):
        part = slice(first, end)
        some = Requests(key[part].astype(np.uint32), endpoint[part], time_us[part], input_tokens[part], total[part])
        lots.append(linker.add(some, keys=5))
    turns = Turns(*(np.concatenate(columns) for columns in zip(*lots, strict=True)))
    found = expected(rows)
    assert list(zip(*(column.tolist() for column in turns[:4]), strict=True)) == found
    assert linker.sessions == 1 + max((session for session, *_ in found), default=-1)
