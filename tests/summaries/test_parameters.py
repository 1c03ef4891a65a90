from __future__ import annotations

import polars as pl
import pytest

from llmtrace.summaries import parameters


def test_equal_parameters_combine_to_themselves() -> None:
    frames = [parameters.plan(interval="1h", bits=8).collect() for _ in range(3)]
    assert parameters.combine(frames).equals(frames[0])


def test_other_parameters_are_refused_and_named() -> None:
    frames = [parameters.plan(interval=interval, bits=8).collect() for interval in ("1h", "1h", "1d")]
    with pytest.raises(ValueError, match=r"interval 1h and 1d$"):
        parameters.combine(frames)


def test_states_of_another_hash_function_are_refused() -> None:
    ours = parameters.plan(bits=8).collect()
    theirs = ours.with_columns(pl.col("value").replace(ours["value"][-1], "polars-0.1"))
    with pytest.raises(ValueError, match=r"hash polars-.* and polars-0\.1"):
        parameters.combine([ours, theirs])
