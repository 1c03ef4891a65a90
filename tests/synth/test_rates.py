from __future__ import annotations

from collections import defaultdict
from datetime import date, datetime
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.synth.rates import DAY_US, blocks, span_us
from llmtrace.synth.workload import Workload


@given(st.integers(1, 10**7), st.integers(1, 400), st.integers(0, 5))
def test_rows_add_up_exactly(requests: int, days: int, seed: int) -> None:
    rows = [block.rows for block in blocks(Workload(requests=requests, days=days, seed=seed))]
    assert sum(rows) == requests
    assert min(rows) >= 0


@pytest.mark.parametrize(("requests", "pieces"), [(10**5, 1), (10**6, 2), (6 * 10**6, 24), (10**9, 96)])
def test_blocks_tile_the_days_and_are_small(requests: int, pieces: int) -> None:
    workload = Workload(requests=requests, days=2, start=date(2025, 4, 11))
    every = list(blocks(workload))
    assert len(every) == 2 * pieces
    assert every[0].start_us == datetime(2025, 4, 11).timestamp() * 1e6 - datetime(1970, 1, 1).timestamp() * 1e6
    assert every[-1].end_us - every[0].start_us == 2 * DAY_US
    assert span_us(workload) == (every[0].start_us, every[-1].end_us)
    assert all(one.end_us == other.start_us for one, other in pairwise(every))
    assert [block.day for block in every] == [0] * pieces + [1] * pieces


def test_weekdays_are_busier_than_weekends_and_afternoons_than_nights() -> None:
    by_weekday, by_hour = defaultdict(list), np.zeros(24)
    for block in blocks(Workload(requests=364 * 1000, days=364, start=date(2025, 4, 14))):
        by_weekday[block.index % 7].append(block.rows)
        by_hour += block.curve.reshape(24, 4).sum(axis=1)
    means = [float(np.mean(by_weekday[weekday])) for weekday in range(7)]
    assert min(means[:5]) > 1.2 * max(means[5:])
    assert 13 <= by_hour.argmax() <= 19
    assert 1 <= by_hour.argmin() <= 5


def test_volume_rises_to_the_middle_and_falls() -> None:
    rows = np.array([block.rows for block in blocks(Workload(requests=10**6))])
    first, middle, last = rows[:28].mean(), rows[168:196].mean(), rows[-28:].mean()
    assert middle > 1.4 * last > 1.4 * first
