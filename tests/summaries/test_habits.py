"""In which periods users are active and what they turn to most, against loops over what each does."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries import tallies
from llmtrace.summaries.habits import SCHEMAS, HabitStore, Models, Period, over, tables
from llmtrace.summaries.interning import Interner
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.tallies import COUNT_BITS, MOST_COUNT, Tallies

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    State = tuple[dict[str, pl.DataFrame], dict[int, Models]]

DAY_US = 86_400_000_000
NAMES = {UNKNOWN: None, 3: "zeta", 8: "alpha", 11: "mid", 20: "beta"}
"""The names of models do not follow their keys."""
Deed = tuple[int, int, int, int]
"""A day, a user, a model, and how many requests."""
DEEDS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 4), st.sampled_from(sorted(NAMES)), st.sampled_from([1, 1, 2, 3000])), max_size=40
).map(lambda deeds: sorted(deeds, key=lambda deed: deed[0]))


def of_day(day: int, deeds: Sequence[Deed]) -> State:
    """The state of requests of one day."""
    keys = sorted({model for *_, model, _ in deeds})
    met: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for _, user, model, requests in deeds:
        met[user][keys.index(model)] += requests
    flat: list[int] = []
    sizes = []
    for _, counts in sorted(met.items()):
        pieces = [(cell << COUNT_BITS) + min(count, MOST_COUNT) for cell, count in counts.items()]
        for cell, count in counts.items():
            pieces += [(cell << COUNT_BITS) + min(MOST_COUNT, count - done) for done in range(MOST_COUNT, count, MOST_COUNT)]
        flat += pieces
        sizes.append(len(pieces))
    tallied = Tallies(np.array(sizes, np.uint32), np.array(flat, np.uint32), len(keys))
    models = Models(np.array(keys, np.uint64), pl.Series("name", [NAMES[key] for key in keys], dtype=pl.String))
    return tables([Period(day * DAY_US, np.array(sorted(met), np.uint64), tallied)]), {day * DAY_US: models}


def together(states: Sequence[State]) -> State:
    """The state of parts in order of time."""
    numbers = Interner()
    store = HabitStore(numbers)
    keys: defaultdict[int, set[int]] = defaultdict(set)
    for state, models in states:
        users = np.unique(np.concatenate([state["open_users"]["key"].to_numpy(), state["habits"]["user"].to_numpy()]))
        store.add(state, models, numbers.add(users))
        for start, own in models.items():
            keys[start] |= set(own.keys.tolist())
    found = store.total()
    is_open = set(found["open_users"]["time"].to_physical())
    return found, {
        start: Models(np.array(sorted(own), np.uint64), pl.Series("name", [NAMES[key] for key in sorted(own)], dtype=pl.String))
        for start, own in keys.items()
        if start in is_open
    }


def of_part(deeds: Sequence[Deed]) -> State:
    return together([of_day(day, list(own)) for day, own in groupby(deeds, key=lambda deed: deed[0])])


def expected(deeds: Sequence[Deed]) -> list[tuple[int, int, int, int]]:
    """Per day and user the main model, of several with as many requests the one whose name comes first, and all requests."""
    met: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for day, user, model, requests in deeds:
        met[day, user][model] += requests
    rows = []
    for (day, user), counts in sorted(met.items()):
        named = [(-count, name, model) for model, count in counts.items() if (name := NAMES[model]) is not None]
        rows.append((day * DAY_US, user, min(named)[2] if named else UNKNOWN, counts.total()))
    return rows


def found_in(state: State) -> list[tuple[int, int, int, int]]:
    habits = over(*state)
    assert dict(habits.schema) == SCHEMAS["habits"]
    return habits.with_columns(pl.col("time").to_physical()).rows()


@given(DEEDS, st.lists(st.integers(0, 40), max_size=4))
def test_main_models_are_those_of_a_loop_however_a_trace_is_cut(deeds: list[Deed], cuts: list[int]) -> None:
    borders = [0, *sorted(min(cut, len(deeds)) for cut in cuts), len(deeds)]
    parts = [of_part(deeds[start:end]) for start, end in pairwise(borders)]
    assert found_in(together(parts)) == expected(deeds)


@given(DEEDS, st.integers(0, 40), st.integers(0, 40))
def test_parts_come_together_in_any_grouping(deeds: list[Deed], one: int, other: int) -> None:
    low, high = sorted((one, other))
    first, second, third = (of_part(deeds[slice(*cut)]) for cut in ((0, low), (low, high), (high, None)))
    left, right = together([together([first, second]), third]), together([first, together([second, third])])
    for name in SCHEMAS:
        assert left[0][name].equals(right[0][name])


@given(DEEDS)
def test_only_the_first_and_the_last_period_stay_open(deeds: list[Deed]) -> None:
    state, _ = of_part(deeds)
    days = sorted({day for day, *_ in deeds})
    assert sorted(set(state["open_users"]["time"].to_physical())) == sorted({day * DAY_US for day in (days[:1] + days[-1:])})
    assert sorted(set(state["habits"]["time"].to_physical())) == [day * DAY_US for day in days[1:-1]]


def test_adding_up_in_between_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    deeds = [(day, user, model, 3000) for day in range(3) for user in (1, 2) for model in (3, 8, 3)]
    monkeypatch.setattr(tallies, "MOST_WAITING", 1)
    parts = [of_part(deeds[start : start + 2]) for start in range(0, len(deeds), 2)]
    assert found_in(together(parts)) == expected(deeds)


def test_nobody_has_no_habits() -> None:
    state = together([])
    assert {name: dict(table.schema) for name, table in state[0].items()} == {name: dict(one) for name, one in SCHEMAS.items()}
    assert found_in(state) == []
