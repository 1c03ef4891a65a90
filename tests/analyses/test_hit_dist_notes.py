"""What the notes of `hit-dist` say of humps and of models that never hit."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from llmtrace.analyses.hit_dist import HitDist, shape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llmtrace.result import Result

    Measured = Callable[..., Result]

START = datetime(2025, 4, 11)


def two_models(hits: Sequence[int], repeat: int = 110) -> pl.DataFrame:
    """One model per ratio, of inputs of 100 tokens."""
    cached = np.repeat(hits, repeat)
    return pl.DataFrame({"timestamp": [START] * cached.size, "input_tokens": 100, "cached_tokens": cached}).with_columns(
        model=pl.col("cached_tokens").cast(pl.String)
    )


def test_two_humps_of_two_models_are_told_from_models_with_two_humps(measured: Measured) -> None:
    frame = two_models([4, 5, 6, 91, 92, 93]).with_columns(
        model=pl.when(pl.col("cached_tokens") < 50).then(pl.lit("a")).otherwise(pl.lit("b"))
    )
    result = measured(HitDist(), frame)
    modes = ("lower_mode", "valley", "upper_mode", "valley_depth", "lesser_mode_share")
    assert [result.scalars[name] for name in modes] == pytest.approx([0.075, 0.875, 0.925, 1.0, 0.5])
    assert result.scalars["bimodality"] == pytest.approx(1, abs=0.05)
    [note] = [note for note in result.notes if note.startswith("Two humps")]
    assert note.endswith(".")
    assert "Taken alone, 0 of 2 models have a coefficient above" in note
    assert "at 0.075 and 0.925" in note


def test_requests_of_no_known_model_are_no_model_with_two_humps(measured: Measured) -> None:
    """`m` has one ratio, so no coefficient; what names no model has two; `few` is too small to tell."""
    hits = pl.DataFrame({"cached_tokens": [50, 0, 50, 100] * 75, "model": ["m", None, "m", None] * 75})
    few = pl.DataFrame({"cached_tokens": [0, 100], "model": ["few", "few"]})
    for frame, told in ((hits, "0 of 1 model has"), (pl.concat([hits, few]), "0 of 2 models have")):
        result = measured(HitDist(), frame.with_columns(timestamp=pl.lit(START), input_tokens=100))
        [note] = [note for note in result.notes if note.startswith("Two humps")]
        assert f" Taken alone, {told} a coefficient above 0.556 and a valley deeper than 50%" in note
        assert note.endswith("; 1 has 100 measured requests or fewer, too few to tell.") == (result.scalars["models"] == 2)


def test_models_too_small_to_tell_are_not_told(measured: Measured) -> None:
    [note] = [note for note in measured(HitDist(), two_models([4, 92], 50)).notes if note.startswith("Two humps")]
    assert "Taken alone" not in note


def test_one_hump_is_no_two(measured: Measured) -> None:
    result = measured(HitDist(), two_models([40, 50, 50, 60]))
    coefficient = result.scalars["bimodality"]
    assert isinstance(coefficient, float)
    assert coefficient < shape.UNIFORM


def test_a_model_that_never_hits_is_suspicious(measured: Measured) -> None:
    result = measured(HitDist(), two_models([0, 50]))
    assert any(note.startswith("1 of 2 models with more than 100 requests logs no cached token at all") for note in result.notes)


def test_requests_of_no_known_model_are_no_model_that_never_hits(measured: Measured) -> None:
    frame = two_models([0, 50]).with_columns(model=pl.when(pl.col("cached_tokens") > 0).then(pl.lit("m")))
    assert not [note for note in measured(HitDist(), frame).notes if "no cached token at all" in note]


def test_where_nothing_is_measured_sums_are_not_known(measured: Measured) -> None:
    frame = two_models([0, 50]).with_columns(cached_tokens=pl.lit(None, pl.Int64))
    scalars = measured(HitDist(), frame).scalars
    assert {scalars[name] for name in ("models", "users", "input_tokens", "cached_tokens", "token_hit_ratio")} == {None}
    assert scalars["measured_requests"] == 0
