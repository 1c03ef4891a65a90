"""What one pass finds out, against loops over the requests."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries import tallies
from llmtrace.summaries.histogram import bucket_indices, relative_error
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.usage import BITS, OUTPUT_CELL, USER_BITS, Chunk, Usage, survey
from llmtrace.summaries.user_medians import medians

if TYPE_CHECKING:
    from llmtrace.summaries.tallies import Tallies

LARGEST = 2**63 - 1
TOKENS = st.just(-1) | st.integers(0, 40) | st.integers(0, 10**6) | st.integers(2**62, LARGEST)
KEYS = st.sampled_from([UNKNOWN, 1, 2, 2**56, 2**63 + 5, 2**64 - 1])
REQUESTS = st.lists(st.tuples(KEYS, KEYS, TOKENS, TOKENS), max_size=60)

Request = tuple[int, int, int, int]


def surveyed(requests: list[Request], cut: int, *, users: bool = True) -> Usage:
    chunks = []
    for start in range(0, len(requests), cut):
        own = requests[start : start + cut]
        columns: list[Any] = [
            np.array(column, np.int64 if place > 1 else np.uint64) for place, column in enumerate(zip(*own, strict=True))
        ]
        times = np.arange(start, start + len(own), dtype=np.int64) * 7
        chunks.append(Chunk(columns[0] if users else None, columns[1], times, columns[2], columns[3]))
    return survey(chunks, sum(chunk.models.size for chunk in chunks))


def bucket(value: int, bits: int) -> int:
    return int(bucket_indices(np.array([value]), bits)[0])


@given(REQUESTS, st.integers(1, 70))
def test_models_are_counted_and_their_tokens_summed(requests: list[Request], cut: int) -> None:
    found = surveyed(requests, cut)
    models = sorted({model for _, model, _, _ in requests})
    assert found.models.tolist() == models
    assert found.model_requests.tolist() == [sum(one[1] == model for one in requests) for model in models]
    assert [requests[row][1] for row in found.model_rows] == models
    assert all(model not in {one[1] for one in requests[:row]} for model, row in zip(models, found.model_rows, strict=True))
    for side, (known, upper, lower) in ((2, found.model_tokens[:3]), (3, found.model_tokens[3:])):
        values = [[one[side] for one in requests if one[1] == model and one[side] >= 0] for model in models]
        assert known.tolist() == [len(some) for some in values]
        sums = [(int(high) << 32) + int(low) for high, low in zip(upper, lower, strict=True)]
        assert sums == [sum(some) for some in values]
        assert all(low < 2**32 for low in lower)


@given(REQUESTS, st.integers(1, 70))
def test_lengths_are_those_of_requests_with_positive_input_and_output(requests: list[Request], cut: int) -> None:
    offsets, buckets, counts = surveyed(requests, cut).lengths
    for side in range(2):
        own = slice(offsets[side], offsets[side + 1])
        expected = Counter(bucket(one[2 + side], BITS) for one in requests if one[2] > 0 and one[3] > 0)
        assert list(zip(buckets[own].tolist(), counts[own].tolist(), strict=True)) == sorted(expected.items())


@given(REQUESTS, st.integers(1, 70))
def test_known_users_have_their_requests_arrivals_models_and_lengths(requests: list[Request], cut: int) -> None:
    found = surveyed(requests, cut)
    users = sorted({user for user, *_ in requests} - {UNKNOWN})
    assert found.users.tolist() == users
    rows = [[row for row, one in enumerate(requests) if one[0] == user] for user in users]
    assert found.requests.tolist() == [len(own) for own in rows]
    assert found.first_us.tolist() == [7 * own[0] for own in rows]
    assert found.last_us.tolist() == [7 * own[-1] for own in rows]
    met = [Counter(found.models.tolist().index(requests[row][1]) for row in own) for own in rows]
    assert pairs_of(found.user_models) == [list(counts.items()) for counts in met]
    lengths: list[Counter[int]] = [Counter() for _ in users]
    for counts, own in zip(lengths, rows, strict=True):
        for row in own:
            _, _, tokens, answer = requests[row]
            if tokens > 0 and answer > 0:
                counts.update([bucket(tokens, USER_BITS), OUTPUT_CELL + bucket(answer, USER_BITS)])
    assert pairs_of(found.user_lengths) == [list(counts.items()) for counts in lengths]


@given(REQUESTS)
def test_users_can_be_left_out(requests: list[Request]) -> None:
    whole, without = surveyed(requests, 9), surveyed(requests, 9, users=False)
    assert without.users.size == without.user_models.flat.size == without.user_lengths.flat.size == 0
    assert without.model_requests.tolist() == whole.model_requests.tolist()
    assert [one.tolist() for one in without.lengths] == [one.tolist() for one in whole.lengths]


def test_many_users_with_similar_keys_are_told_apart() -> None:
    keys = [(lot << 56) + one for lot in (0, 3, 255) for one in range(1, 300)]
    order = np.random.default_rng(3).permutation(np.repeat(np.array(keys, np.uint64), 5))
    with patch.object(tallies, "_FEW", 0):
        found = surveyed([(int(key), 1, 1, 1) for key in order], 400)
    assert found.users.tolist() == sorted(keys)
    assert found.requests.tolist() == [5] * len(keys)


def test_many_users_with_keys_all_over_come_in_order() -> None:
    keys = np.random.default_rng(5).integers(1, 2**64, 20_000, np.uint64)
    met = np.repeat(keys, np.arange(20_000) % 3 + 1)
    found = surveyed([(int(key), 1, 1, 1) for key in met], 700)
    expected, counts = np.unique(met, return_counts=True)
    assert found.users.tolist() == expected.tolist()
    assert found.requests.tolist() == counts.tolist()


@given(st.lists(st.tuples(st.integers(1, 2), TOKENS, TOKENS), min_size=1, max_size=60))
def test_medians_of_users_are_within_their_bound(requests: list[tuple[int, int, int]]) -> None:
    found = surveyed([(user, 1, tokens, answer) for user, tokens, answer in requests], 13)
    wanted = np.array([True] * found.users.size)
    for side, values in enumerate(medians(found.user_lengths, wanted)):
        for user, value in zip(found.users, values, strict=True):
            own = [float(one[1 + side]) for one in requests if one[0] == user and one[1] > 0 and one[2] > 0]
            if own:
                assert value == pytest.approx(np.median(own), rel=relative_error(USER_BITS))
                assert value == np.median(own) or max(own) >= 2 ** (USER_BITS + 1)
            else:
                assert np.isnan(value)


def test_medians_are_given_of_wanted_users_alone() -> None:
    found = surveyed([(1, 1, 10, 20), (2, 1, 30, 40), (2, 1, 50, 60)], 5)
    inputs, outputs = medians(found.user_lengths, np.array([False, True]))
    assert np.isnan([inputs[0], outputs[0]]).all()
    assert (inputs[1], outputs[1]) == (40.0, 50.0)


def pairs_of(found: Tallies) -> list[list[tuple[int, int]]]:
    offsets, pairs = found.offsets().tolist(), found.pairs()
    return [pairs[start:end] for start, end in pairwise(offsets)]
