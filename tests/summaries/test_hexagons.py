"""Hexagons against a search for the nearest of all centres."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from llmtrace.summaries import hexagons
from llmtrace.summaries.histogram import bucket_middle, bucket_of

if TYPE_CHECKING:
    import numpy.typing as npt

VALUES = st.floats(0, 18.9).map(lambda power: int(10**power)) | st.integers(1, 300)


def hexagon_of(across: int, upwards: int) -> int:
    return hexagons.hexagon(bucket_of(across, hexagons.BITS), bucket_of(upwards, hexagons.BITS))


def in_steps(value: int) -> float:
    """Decades of the middle of a value's bucket, in steps of the lattice across."""
    return math.log10(bucket_middle(bucket_of(value, hexagons.BITS), hexagons.BITS)) * hexagons.PER_DECADE


def all_centres() -> npt.NDArray[np.float64]:
    """Both lattices over twenty decades, in steps across and in regular proportions."""
    across, upwards = np.meshgrid(np.arange(200), np.arange(120), indexing="ij")
    even = np.stack([across.ravel(), upwards.ravel() * math.sqrt(3)], axis=1)
    return np.concatenate([even, even + np.array([1 / 2, math.sqrt(3) / 2])])


CENTRES = all_centres()


@example(across=1, upwards=2**63 - 1)
@given(across=VALUES, upwards=VALUES)
def test_a_point_lies_in_the_hexagon_of_the_nearest_centre(across: int, upwards: int) -> None:
    found = hexagons.centres(np.array([hexagon_of(across, upwards)]))
    x, y = (np.log10(value[0]) * hexagons.PER_DECADE for value in found)
    away = np.hypot(*(np.array([in_steps(across), in_steps(upwards)]) - CENTRES).T)
    assert math.hypot(x - in_steps(across), y - in_steps(upwards)) == pytest.approx(away.min(), abs=1e-9)
    assert np.hypot(*(CENTRES - (x, y)).T).min() == pytest.approx(0, abs=1e-9)


def test_centres_differ_where_hexagons_do() -> None:
    points = {hexagon_of(across, upwards) for across in range(1, 3_000, 7) for upwards in range(1, 3_000, 11)}
    centres = {tuple(map(float, pair)) for pair in zip(*hexagons.centres(np.array(sorted(points))), strict=True)}
    assert len(centres) == len(points) > 100


def test_numbers_fit_into_their_bits() -> None:
    assert hexagon_of(2**63 - 1, 2**63 - 1) < 1 << 2 * hexagons.SIDE_BITS
    assert hexagon_of(2**63 - 1, 1) >> hexagons.SIDE_BITS < 1 << hexagons.SIDE_BITS
