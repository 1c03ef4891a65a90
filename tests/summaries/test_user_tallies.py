"""What users turn to: `collections.Counter` and NumPy's median are the oracles, whatever the cut."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries import user_tallies
from llmtrace.summaries.groups import group
from llmtrace.summaries.interning import Interner
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.tallies import MOST_COUNT, Tallies, TallyStore, ranked, renumbered
from llmtrace.summaries.user_medians import medians

if TYPE_CHECKING:
    from collections.abc import Sequence

    Rows = Sequence[tuple[int, int, int, int]]
    Counts = dict[int, list[tuple[int, int]]]

TOKENS = st.integers(-1, 200) | st.integers(1, 10**6) | st.just(2**63 - 1)
ROWS = st.lists(
    st.tuples(st.sampled_from([UNKNOWN, 3, 7, 2**64 - 1]), st.sampled_from([UNKNOWN, 2, 5, 8, 11]), TOKENS, TOKENS), max_size=40
)
SCHEMA = {"user": pl.UInt64, "model": pl.UInt64, "input": pl.Int64, "output": pl.Int64}


def tallied(rows: Rows) -> tuple[list[int], list[int], Tallies, Tallies]:
    """The users and models of some requests, ascending, and what the users turn to."""
    frame = pl.DataFrame(rows, SCHEMA, orient="row")
    users, models = group(frame, "user"), group(frame, "model")
    found = user_tallies.tally(users, models, frame["input"].to_numpy(), frame["output"].to_numpy())
    return users.labels["key"].to_list(), models.labels["key"].to_list(), *found


def together(parts: Sequence[Rows]) -> tuple[list[int], list[int], Tallies, Tallies]:
    """The same of several parts, brought together."""
    users, models = Interner(), Interner()
    met, lengths = TallyStore(users), TallyStore(users)
    for rows in parts:
        own, used, turned, long = tallied(rows)
        numbers = users.add(np.array(own, np.uint64))
        places = models.add(np.array(used, np.uint64))
        met.add(numbers, renumbered(turned, places, models.keys.size))
        lengths.add(numbers, long)
    order, ranks = ranked(models.keys)
    everyone, found = met.total()
    return (
        users.keys[everyone].tolist(),
        models.keys[order].tolist(),
        renumbered(found, ranks, ranks.size),
        lengths.total()[1],
    )


def counts_of(users: list[int], models: list[int], met: Tallies) -> Counts:
    """Per user the models in the order of their tallies, and how often each."""
    ends, pairs = met.offsets().tolist(), met.pairs()
    return {
        user: [(models[cell], count) for cell, count in pairs[start:end]]
        for user, (start, end) in zip(users, pairwise(ends), strict=True)
    }


@given(rows=ROWS, cuts=st.lists(st.integers(0, 40), max_size=3))
def test_a_user_turns_to_known_models_in_the_order_of_first_requests(rows: Rows, cuts: list[int]) -> None:
    borders = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    users, models, met, _ = together([rows[start:end] for start, end in pairwise(borders)])
    assert users == sorted({row[0] for row in rows})
    assert models == sorted({row[1] for row in rows})
    expected = {
        user: list(Counter(row[1] for row in rows if row[0] == user != UNKNOWN and row[1] != UNKNOWN).items()) for user in users
    }
    assert counts_of(users, models, met) == expected


@given(rows=ROWS, percent=st.sampled_from([1, 50, 90, 100]))
def test_models_have_their_users_and_users_their_models(rows: Rows, percent: int) -> None:
    users, models, met, _ = tallied(rows)
    known = [row[:2] for row in rows if UNKNOWN not in row[:2]]
    for model, found in zip(models, user_tallies.by_model(met, len(models), percent).rows(), strict=True):
        counts = sorted(Counter(row for row in known if row[1] == model).values(), reverse=True)
        enough = [count for count in range(len(counts) + 1) if 100 * sum(counts[:count]) >= percent * sum(counts)]
        assert found == (len(counts), sum(counts), max(counts, default=0), enough[0])
    for user, (pairs, requests, place, most) in zip(
        users, user_tallies.by_user(met, np.zeros(met.width, np.int64)).rows(), strict=True
    ):
        own = Counter(row[1] for row in known if row[0] == user)
        assert (pairs, requests, most) == (len(own), own.total(), max(own.values(), default=0))
        # `most_common` has of equal counts the one first met.
        assert (None if place is None else models[place]) == (own.most_common(1)[0][0] if own else None)


@given(rows=ROWS)
def test_lengths_count_where_both_sides_are_positive(rows: Rows) -> None:
    users, _, _, lengths = tallied(rows)
    inputs, outputs = medians(lengths, np.ones(len(users), np.bool_))
    for user, *found in zip(users, inputs.tolist(), outputs.tolist(), strict=True):
        own = [row[2:] for row in rows if row[0] == user != UNKNOWN and min(row[2:]) > 0]
        for place, median in enumerate(found):
            if own:
                assert median == pytest.approx(float(np.median([float(pair[place]) for pair in own])), rel=2**-7)
            else:
                assert np.isnan(median)


def test_counts_beyond_a_tally_are_put_together_again() -> None:
    many = 2 * MOST_COUNT + 5
    rows = [(3, 5, 1, 1)] * many + [(3, 2, 1, 1), (7, 5, 1, 1)]
    users, models, met, _ = together([rows, rows])
    assert met.sizes.tolist() == [-(-2 * many // MOST_COUNT) + 1, 1]
    assert user_tallies.by_user(met, np.zeros(met.width, np.int64)).rows() == [
        (2, 2 * many + 2, models.index(5), 2 * many),
        (1, 2, models.index(5), 2),
    ]
    assert user_tallies.by_model(met, len(models), 90).rows() == [(1, 2, 2, 1), (2, 2 * many + 2, 2 * many, 1)]
    assert users == [3, 7]
