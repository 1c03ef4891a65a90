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


def joined(parts: Sequence[Part], made: Sequence[Trails], limits: Limits) -> tuple[Part, Trails, Counter[int]]:
    """All parts as one, by way of `trails.join`; the cells that this released."""
    whole, sides = Part([], 0), []
    whole.keys = list(dict.fromkeys(key for part in parts for key in part.keys))
    for part, own in zip(parts, made, strict=True):
        places = [whole.keys.index(key) for key in part.keys]
        gaps = [part.first[row] - whole.last[place] if place in whole.last else 0 for row, place in enumerate(places)]
        sides.append((own, np.array(places, np.uint32), np.array([cell(gap) for gap in gaps], np.uint32)))
        for row, place in enumerate(places):
            whole.first.setdefault(place, part.first[row])
            whole.last[place] = part.last[row]
    tallies = np.zeros((2, ttl.CELLS), np.uint32)
    found = trails.join(sides, len(whole.keys), limits, tallies)
    return whole, found, Counter(dict(enumerate(tallies[1].tolist())))


@given(visits=VISITS, cuts=st.lists(st.integers(0, 60), max_size=3), limits=LIMITS, at_once=st.booleans())
def test_trails_are_those_of_the_whole(visits: Visits, cuts: list[int], limits: Limits, *, at_once: bool) -> None:
    gaps: dict[int, list[int]] = defaultdict(list)
    last: dict[int, int] = {}
    time = 0
    for key, step in visits:
        time += step
        gaps[key] += [time - last[key]] if key in last and time > last[key] else []
        last[key] = time
    borders = [0, *sorted(min(cut, len(visits)) for cut in cuts), len(visits)]
    parts = [Part(visits[start:end], sum(step for _, step in visits[:start])) for start, end in pairwise(borders)]
    tallies = np.zeros((2, ttl.CELLS), np.uint32)
    made = [trails.gather(*part.found, limits, tallies) for part in parts]
    released = Counter(dict(enumerate(tallies[1].tolist())))
    if at_once:
        whole, found, more = joined(parts, made, limits)
        released += more
    else:
        whole, found = parts[0], made[0]
        for part, own in zip(parts[1:], made[1:], strict=True):
            whole, found, more = joined([whole, part], [found, own], limits)
            released += more
    kept = [gaps[key] for key in whole.keys if len(gaps[key]) < limits.limit]
    assert found.positive.tolist() == [min(len(gaps[key]), limits.limit) for key in whole.keys]
    assert found.held.tolist() == [cell(gap) for one in kept for gap in one]
    eligible = [gap for one in gaps.values() if len(one) >= limits.threshold for gap in one]
    assert +released == Counter(map(cell, eligible))
    wanted = np.array([bool(gaps[key]) and (limits.profiled or len(gaps[key]) < limits.limit) for key in whole.keys], np.bool_)
    percentiles = trails.percentiles(found, wanted, (10, 50, 90), limits.limit)
    expected = [np.percentile(gaps[key], (10, 50, 90)) for key, is_wanted in zip(whole.keys, wanted, strict=True) if is_wanted]
    assert percentiles.tolist() == [pytest.approx(row.tolist(), rel=2**-7) for row in expected]
