"""Trails: lists of gaps in a dictionary are the oracle, whatever the cut and the limits."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries import profiles, trail_growth, trails, ttl
from llmtrace.summaries.trail_growth import Growing
from llmtrace.summaries.trails import Limits, Trails

if TYPE_CHECKING:
    from collections.abc import Sequence

    Visits = Sequence[tuple[int, int]]

VISITS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 0, 1, 7, 10**5, 10**9])), max_size=60)
CUTS = st.lists(st.integers(0, 60), max_size=3)
LIMITS = st.sampled_from(
    [Limits(1, 1, profiled=True), Limits(3, 3, profiled=False), Limits(3, 5, profiled=True), Limits(2, 9, profiled=True)]
)


class Part:
    """Visits of a part, as (key, time since the visit before): its keys and their gaps, and what joining it takes."""

    def __init__(self, visits: Visits, start: int) -> None:
        self.keys = list(dict.fromkeys(key for key, _ in visits))
        self.gaps: dict[int, list[int]] = defaultdict(list)
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        time = start
        for key, step in visits:
            time += step
            self.gaps[key] += [time - self.last[key]] if key in self.last and time > self.last[key] else []
            self.first.setdefault(key, time)
            self.last[key] = time


def cell(gap: int) -> int:
    nothing = np.zeros(1, np.int64)
    return int(ttl.weigh(np.array([gap]), nothing, nothing, ttl.no_sums())[0])


def grown(own: Growing, before: Sequence[int], gaps: Sequence[Sequence[int]], limits: Limits) -> Growing:
    """Trails to which gaps are added, key by key; each key's place before is given, -1 for new ones."""
    further = (
        np.cumsum([len(one) for one in gaps], dtype=np.int64),
        np.array([cell(gap) for one in gaps for gap in one], np.uint32),
    )
    positive = np.array([own.positive[place] if place >= 0 else 0 for place in before], np.uint16)
    return own.grown(positive, further, limits)


def made_of(gaps: Sequence[Sequence[int]], limits: Limits) -> Trails:
    """The trails of keys with these gaps."""
    return grown(trail_growth.none(), [-1] * len(gaps), gaps, limits).settled(limits)


def joined(parts: Sequence[Part], made: Sequence[Trails], limits: Limits) -> tuple[Part, Trails]:
    """All parts as one, by way of `trails.join`."""
    whole, sides = Part([], 0), []
    whole.keys = list(dict.fromkeys(key for part in parts for key in part.keys))
    for part, own in zip(parts, made, strict=True):
        gaps = [part.first[key] - whole.last[key] if key in whole.last else 0 for key in part.keys]
        places = np.array([whole.keys.index(key) for key in part.keys], np.uint32)
        sides.append((own, places, np.array([cell(gap) for gap in gaps], np.uint32)))
        whole.first = {**part.first, **whole.first}
        whole.last |= part.last
    return whole, trails.join(sides, len(whole.keys), limits)


def parts_of(visits: Visits, cuts: list[int]) -> list[Part]:
    borders = [0, *sorted(min(cut, len(visits)) for cut in cuts), len(visits)]
    return [Part(visits[start:end], sum(step for _, step in visits[:start])) for start, end in pairwise(borders)]


def assert_right(found: Trails, keys: Sequence[int], gaps: dict[int, list[int]], limits: Limits) -> None:
    kept = [gaps[key] for key in keys if len(gaps[key]) < limits.limit]
    assert found.positive.tolist() == [min(len(gaps[key]), limits.limit) for key in keys]
    assert found.held.tolist() == [cell(gap) for one in kept for gap in one]
    many = [
        Counter(int(profiles.BUCKET_OF_CELL[cell(gap)]) for gap in gaps[key]) for key in keys if len(gaps[key]) >= limits.limit
    ]
    offsets, buckets, counts = found.profiles
    rows = [dict(zip(buckets[start:end].tolist(), counts[start:end].tolist(), strict=True)) for start, end in pairwise(offsets)]
    assert rows == (many if limits.profiled else [Counter()] * len(many))
    assert all(list(row) == sorted(row) for row in rows)
    wanted = np.array([bool(gaps[key]) and (limits.profiled or len(gaps[key]) < limits.limit) for key in keys], np.bool_)
    percentiles = trails.percentiles(found, wanted, (10, 50, 90), limits.limit)
    expected = [np.percentile(gaps[key], (10, 50, 90)) for key, is_wanted in zip(keys, wanted, strict=True) if is_wanted]
    assert percentiles.tolist() == [pytest.approx(row.tolist(), rel=2**-7) for row in expected]


@given(visits=VISITS, cuts=CUTS, limits=LIMITS, at_once=st.booleans())
def test_joined_trails_are_those_of_the_whole(visits: Visits, cuts: list[int], limits: Limits, *, at_once: bool) -> None:
    parts = parts_of(visits, cuts)
    made = [made_of([one.gaps[key] for key in one.keys], limits) for one in parts]
    if at_once:
        whole, found = joined(parts, made, limits)
    else:
        whole, found = parts[0], made[0]
        for part, own in zip(parts[1:], made[1:], strict=True):
            whole, found = joined([whole, part], [found, own], limits)
    assert_right(found, whole.keys, Part(visits, 0).gaps, limits)


@given(
    given_gaps=st.lists(st.dictionaries(st.integers(0, 4), st.lists(st.sampled_from([1, 7, 10**9])), max_size=3)),
    limits=LIMITS,
    most_pending=st.integers(1, 9),
)
def test_trails_grow_to_those_of_the_whole(given_gaps: list[dict[int, list[int]]], limits: Limits, most_pending: int) -> None:
    found, keys = trail_growth.none(), list[int]()
    gaps: dict[int, list[int]] = defaultdict(list)
    for more in given_gaps:
        now = sorted({*keys, *more})
        before = [keys.index(key) if key in keys else -1 for key in now]
        with patch.object(trail_growth, "MOST_PENDING", most_pending):
            found = grown(found, before, [more.get(key, []) for key in now], limits)
        keys = now
        for key, some in more.items():
            gaps[key] += some
        assert_right(found.settled(limits), keys, gaps, limits)


def test_trails_side_by_side_are_those_of_all_keys() -> None:
    limits = Limits(1, 2, profiled=True)
    left, right = (made_of(gaps, limits) for gaps in ([[1], [7, 7]], [[9, 1], [5]]))
    assert_right(trails.beside([left, right]), [0, 1, 2, 3], {0: [1], 1: [7, 7], 2: [9, 1], 3: [5]}, limits)


def test_counts_grow_beyond_32_bits() -> None:
    limits = Limits(1, 1, profiled=True)
    own = made_of([[1]], limits)
    full = Growing(own.positive, np.zeros(1, np.uint16), own.held, (*own.profiles[:2], np.array([2**32 - 1], np.uint32)))
    assert grown(full, [0], [[1]], limits).settled(limits).profiles[2].tolist() == [2**32]
