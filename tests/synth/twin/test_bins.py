from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.synth.twin.bins import bins, low, width


@given(st.integers(0, 2**45), st.sampled_from([3, 5, 7]))
def test_a_number_lies_in_its_bin(value: int, bits: int) -> None:
    place = int(bins(np.array([value]), bits)[0])
    assert low(place, bits) <= value < low(place, bits) + width(place, bits)
    assert width(place, bits) == 1 or width(place, bits) / low(place, bits) <= 2.0**-bits


@pytest.mark.parametrize("bits", [3, 5, 7])
def test_bins_follow_each_other_without_a_gap(bits: int) -> None:
    ends = [low(place, bits) + width(place, bits) for place in range(400)]
    assert [low(place, bits) for place in range(1, 401)] == ends


def test_negative_numbers_count_as_zero() -> None:
    assert bins(np.array([-5])).tolist() == [0]
