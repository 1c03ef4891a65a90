"""What `evolution` says of the first and the last period of a trace, and where it has little to compare."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest

from llmtrace.analyses.evolution import Evolution

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llmtrace.result import Result

    Measured = Callable[..., Result]

PSI = ("input_psi_last", "output_psi_last")


def on_days(lengths: Sequence[Sequence[int]], start: datetime = datetime(2025, 4, 11), hours: float = 23.5) -> pl.DataFrame:
    """A day of requests, evenly over `hours` of it, for each list of input tokens, a lone one at noon.

    Output tokens are a tenth; 0 is unknown.
    """
    rows = [
        (
            start + timedelta(days=day, hours=place * hours / (len(own) - 1) if place else 12 * (len(own) == 1)),
            tokens or None,
            -(-tokens // 10) or None,
        )
        for day, own in enumerate(lengths)
        for place, tokens in enumerate(own)
    ]
    table = pl.DataFrame(rows, ["timestamp", "input_tokens", "output_tokens"], orient="row")
    return table.cast({"input_tokens": pl.Int64, "output_tokens": pl.Int64})


def told(result: Result, words: str) -> list[str]:
    return [note for note in result.notes if words in note]


def test_the_last_whole_period_is_not_compared_with_itself(measured: Measured) -> None:
    """Half a day, and a day up to its end: the one whole day is the reference."""
    days = on_days([[100] * 20], datetime(2025, 4, 11, 12), 11).vstack(on_days([[900] * 100], datetime(2025, 4, 12)))
    result = measured(Evolution("1d"), days)
    assert result.tables["drift"].select("partial", "is_reference").rows() == [(True, False)] * 2 + [(False, True)] * 2
    assert [result.scalars[name] for name in PSI] == [None, None]
    assert told(result, "One whole period alone has lengths")


def test_a_period_alone_is_not_compared_with_itself(measured: Measured) -> None:
    result = measured(Evolution("1d"), on_days([[100] * 20]))
    assert [result.scalars[name] for name in PSI] == [None, None]
    assert result.tables["drift"]["psi_level"].to_list() == [None, None]
    assert told(result, "nothing to compare")
    assert not told(result, "whole period")


def test_lengths_in_one_period_of_several_are_compared_with_nothing(measured: Measured) -> None:
    result = measured(Evolution("1d"), on_days([[0], [100] * 9, [0] * 100]))
    assert [result.scalars[name] for name in PSI] == [None, None]
    assert told(result, "One period alone has lengths")


def test_the_first_and_the_last_period_are_those_with_lengths(measured: Measured) -> None:
    """A part of a day, an idle one, one without lengths, two with them, an idle one, a part of a day."""
    start = datetime(2025, 4, 11)
    days = [[100], [], [0, 0], [200, 300, 300], [400, 500, 500], [], [600]]
    result = measured(Evolution("1d"), on_days(days))
    scalars = result.scalars
    assert (scalars["first_time"], scalars["last_time"]) == (start + timedelta(days=3), start + timedelta(days=4))
    assert (scalars["input_median_first"], scalars["input_median_last"]) == (300, 500)
    assert (scalars["output_median_first"], scalars["output_median_last"]) == (30, 50)
    [reference] = result.tables["drift"].filter("is_reference")["time"].unique()
    assert reference == scalars["first_time"]
    assert None not in [scalars[name] for name in PSI]


def test_without_lengths_they_are_those_with_requests(measured: Measured) -> None:
    frame = on_days([[0], [], [0, 0], [], [0, 0], [], [0]]).with_columns(model=pl.Series(["a", "b", "b", "c", "c", "d"]))
    scalars = measured(Evolution("1d"), frame).scalars
    assert (scalars["top_model_first"], scalars["top_model_last"]) == ("b", "c")


def test_few_requests_have_no_level_of_drift_and_many_do(measured: Measured) -> None:
    """The same lengths, 6 or 600 times: two samples of six differ by 0.784 once in twenty times, of 600 by 0.078."""
    for times, level in ((1, "noise"), (100, "major")):
        result = measured(
            Evolution("1d"), on_days([[100, 200, 300, 400, 500, 600] * times, [400, 500, 600, 700, 800, 900] * times])
        )
        drift = result.tables["drift"].filter(~pl.col("is_reference"))
        assert drift["ks"].to_list() == [0.5, 0.5]
        assert drift["psi_level"].to_list() == [level, level]
        assert (drift["psi"] > 0.25).all()
        notes = told(result, "2 of 2 comparisons of drift have a psi of 0.1 or more and are noise all the same")
        assert len(notes) == (level == "noise")
        assert all("input_psi_last and output_psi_last among them" in note for note in notes)


def test_what_is_covered_is_not_rounded_up_to_what_is_enough(measured: Measured) -> None:
    """The first day to 94.7 %, where 95 % are a whole one, and the last to a minute."""
    start = datetime(2025, 4, 11)
    times = [start + timedelta(days=1 - 0.947), start + timedelta(days=1, hours=12), start + timedelta(days=2, minutes=1)]
    [note] = told(measured(Evolution("1d"), on_days([[100] * 3]).with_columns(timestamp=pl.Series(times))), "The trace covers")
    assert note.startswith(
        "The trace covers the first period to 94% and the last period to less than 1% only: counts there are low"
    )


@pytest.mark.parametrize(
    ("start", "interval", "told_so"),
    [
        (datetime(1970, 1, 1, 18, 40), "month", 1),
        (datetime(1970, 1, 1, 18, 40), "quarter", 1),
        (datetime(1970, 1, 1, 18, 40), "1w", 1),
        (datetime(1970, 1, 1, 18, 40), "1d", 0),
        (datetime(2025, 4, 11), "month", 0),
    ],
)
def test_months_and_weeks_of_a_relative_clock_are_explained(
    measured: Measured, start: datetime, interval: str, told_so: int
) -> None:
    notes = told(measured(Evolution(interval), on_days([[100]] * 40, start)), "The trace has no dates")
    assert len(notes) == told_so
    assert all("--epoch TIME" in note and "negative" in note for note in notes)
