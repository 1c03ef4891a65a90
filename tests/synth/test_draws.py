from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from llmtrace.synth.draws import KNOTS, Lognormal, between, draw, draws, pick, stream, zipf

WEIGHTS = st.lists(st.floats(0, 100), min_size=1, max_size=20).filter(lambda weights: sum(weights) > 0)


@pytest.mark.parametrize(("median", "sigma"), [(1.0, 0.2), (900.0, 1.4), (0.02, 1.3)])
def test_table_holds_the_quantiles_of_the_distribution(median: float, sigma: float) -> None:
    shares = np.arange(1, KNOTS) / KNOTS
    assert Lognormal(median, sigma).table()[1:-1] == pytest.approx(stats.lognorm(sigma, scale=median).ppf(shares), rel=1e-8)


def test_draws_follow_the_distribution() -> None:
    sample = draws(Lognormal(50, 0.8).table(), stream(1, 0).random(20_000))
    assert stats.kstest(sample, stats.lognorm(0.8, scale=50).cdf).pvalue > 0.01


def test_table_stays_within_bounds_and_takes_a_unit() -> None:
    table = Lognormal(10, 2, low=3, high=40).table(unit=1e6)
    assert (table[0], table[-1]) == (3e6, 40e6)
    assert np.all(np.diff(table) >= 0)


def test_table_without_spread_is_a_constant() -> None:
    assert set(Lognormal(7, 0).table().tolist()) == {7.0}


@given(st.floats(0, 1, exclude_max=True))
def test_draw_is_linear_between_knots(share: float) -> None:
    table = Lognormal(3, 1).table()
    assert draw(table, share) == pytest.approx(np.interp(share * KNOTS, np.arange(KNOTS + 1), table))


@given(WEIGHTS, st.floats(0, 1, exclude_max=True))
def test_pick_is_the_first_that_exceeds_and_never_one_without_weight(weights: list[float], share: float) -> None:
    cumulative = np.cumsum(weights)
    chosen = pick(cumulative, share)
    assert chosen == next(index for index, reached in enumerate(cumulative) if reached > share * cumulative[-1])
    assert weights[chosen] > 0


@given(WEIGHTS)
def test_pick_stays_inside_at_the_largest_share(weights: list[float]) -> None:
    assert pick(np.cumsum(weights), 1 - 2**-53) < len(weights)


def test_zipf_weights() -> None:
    assert zipf(4, 1.2, 3.0) == pytest.approx([(rank + 3.0) ** -1.2 for rank in (1, 2, 3, 4)], rel=1e-8)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=10), st.floats(-0.5, 1.5))
def test_between_is_linear_and_stops_at_the_ends(values: list[float], position: float) -> None:
    places = np.linspace(0, 1, len(values))
    assert between(values, position) == pytest.approx(np.interp(position, places, values), abs=1e-6)


def test_streams_differ_by_seed_purpose_and_block() -> None:
    firsts = {stream(*key).random() for key in [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2)]}
    assert len(firsts) == 4
