"""Trails: lists of gaps in a dictionary are the oracle, whatever the cut and the limits."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries import trails, ttl
from llmtrace.summaries.trails import Limits, Trails

if TYPE_CHECKING:
    from collections.abc import Sequence

    Visits = Sequence[tuple[int, int]]

VISITS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 0, 1, 7, 10**5, 10**9])), max_size=60)
LIMITS = st.sampled_from(
    [Limits(1, 1, profiled=True), Limits(3, 3, profiled=False), Limits(3, 5, profiled=True), Limits(2, 9, profiled=True)]
)


class Part:
    """Visits of a part, as (key, time since the visit before): its trails and what joining them takes."""

    def __init__(self, visits: Visits, start: int) -> None:
        self.times = [start + sum(step for _, step in visits[: place + 1]) for place in range(len(visits))]
        self.keys = list(dict.fromkeys(key for key, _ in visits))
        self.visits = [(self.keys.index(key), time) for (key, _), time in zip(visits, self.times, strict=True)]
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        cells, positive = [], [0] * len(self.keys)
        for key, time in self.visits:
            gap = time - self.last[key] if key in self.last else None
            cells.append(ttl.NO_CELL if gap is None else cell(gap))
            positive[key] += bool(gap)
            self.first.setdefault(key, time)
            self.last[key] = time
        self.found = (
            np.array(cells, np.uint32),
            np.array([key for key, _ in self.visits], np.uint32),
            np.array(positive, np.uint32),
        )


def cell(gap: int) -> int:
    nothing = np.zeros(1, np.int64)
    return int(ttl.weigh(np.array([gap]), nothing, nothing)[0][0])


def joined(left: Part, right: Part, ours: Trails, theirs: Trails, limits: Limits) -> tuple[Part, Trails, list[int]]:
    """Both parts as one, by way of `trails.join`."""
    both = Part([], 0)
    both.keys = [*left.keys, *(key for key in right.keys if key not in left.keys)]
    rows = tuple(
        np.array([part.keys.index(key) if key in part.keys else -1 for key in both.keys], np.int32) for part in (left, right)
    )
    shared = np.flatnonzero((rows[0] >= 0) & (rows[1] >= 0))
    gaps = [right.first[rows[1][key]] - left.last[rows[0][key]] for key in shared]
    for place in range(len(both.keys)):
        a, b = (int(side[place]) for side in rows)
        both.first[place] = left.first[a] if a >= 0 else right.first[b]
        both.last[place] = right.last[b] if b >= 0 else left.last[a]
    border = np.array([cell(gap) for gap in gaps], np.uint32)
    found, released = trails.join((ours, theirs), (rows[0], rows[1]), shared, border, limits)
    return both, found, released.tolist()


@given(visits=VISITS, cuts=st.lists(st.integers(0, 60), max_size=3), limits=LIMITS)
def test_trails_are_those_of_the_whole(visits: Visits, cuts: list[int], limits: Limits) -> None:
    gaps: dict[int, list[int]] = defaultdict(list)
    last: dict[int, int] = {}
    time = 0
    for key, step in visits:
        time += step
        gaps[key] += [time - last[key]] if key in last and time > last[key] else []
        last[key] = time
    borders = [0, *sorted(min(cut, len(visits)) for cut in cuts), len(visits)]
    whole, made = None, None
    released: Counter[int] = Counter()
    for start, end in pairwise(borders):
        part = Part(visits[start:end], sum(step for _, step in visits[:start]))
        tallies = np.zeros((2, ttl.CELLS), np.uint32)
        gathered = trails.gather(*part.found, limits, tallies)
        released += Counter(dict(enumerate(tallies[1].tolist())))
        if whole is None or made is None:
            whole, made = part, gathered
            continue
        whole, made, more = joined(whole, part, made, gathered, limits)
        released += Counter(more)
    assert whole is not None
    assert made is not None
    kept = [gaps[key] for key in whole.keys if len(gaps[key]) < limits.limit]
    assert made.positive.tolist() == [min(len(gaps[key]), limits.limit) for key in whole.keys]
    assert made.held.tolist() == [cell(gap) for one in kept for gap in one]
    eligible = [gap for one in gaps.values() if len(one) >= limits.threshold for gap in one]
    assert +released == Counter(map(cell, eligible))
    wanted = np.array([bool(gaps[key]) and (limits.profiled or len(gaps[key]) < limits.limit) for key in whole.keys], np.bool_)
    found = trails.percentiles(made, wanted, (10, 50, 90), limits.limit)
    expected = [np.percentile(gaps[key], (10, 50, 90)) for key, is_wanted in zip(whole.keys, wanted, strict=True) if is_wanted]
    assert found.tolist() == [pytest.approx(row.tolist(), rel=2**-7) for row in expected]
