from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries.fixed import LOG_UNIT, added, fixed_log, fixed_logs

POSITIVE = st.integers(0, 62).flatmap(lambda bits: st.integers(1 << bits, (1 << (bits + 1)) - 1))
FACTORS = st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)), max_size=8)


@given(FACTORS)
def test_products_add_up_as_python_integers_do(factors: list[tuple[int, int]]) -> None:
    high, low = np.uint64(0), np.uint64(0)
    for x, y in factors:
        high, low = (np.uint64(half) for half in added(high, low, np.uint64(x), np.uint64(y)))
    assert (int(high) << 64) + int(low) == sum(x * y for x, y in factors)


@given(POSITIVE)
def test_a_fixed_logarithm_is_off_by_half_a_step(value: int) -> None:
    assert abs(fixed_log(value) * LOG_UNIT - math.log2(value)) <= 0.5001 * LOG_UNIT


def test_powers_of_two_have_whole_logarithms_and_what_is_not_positive_none() -> None:
    powers = 1 << np.arange(63)
    assert (fixed_logs(powers) * LOG_UNIT).tolist() == list(range(63))
    assert fixed_logs(np.array([0, -1, 2])).tolist() == [0, 0, 1 << 26]
