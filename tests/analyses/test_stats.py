"""`stats` against an oracle in plain Python, written from the definitions and from nothing else."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta
from statistics import correlation, fmean, median
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.analyses.stats import Stats
from llmtrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llmtrace.result import Result

    Measured = Callable[..., Result]

Row: TypeAlias = dict[str, Any]

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "timestamp": pl.Datetime("us"),
    "input_tokens": pl.Int64,
    "output_tokens": pl.Int64,
    "cached_tokens": pl.Int64,
    "user": pl.String,
    "model": pl.String,
    "instance": pl.String,
    "session": pl.String,
    "endpoint": pl.String,
    "stream": pl.Boolean,
    "status": pl.String,
}
MINUTE_US = 60_000_000
PERCENTS = (1, 5, 10, 25, 50, 75, 90, 95, 99)
START = datetime(2025, 4, 11, 23, 58)


def frame_of(rows: list[Row]) -> pl.DataFrame:
    return pl.DataFrame(rows, SCHEMA).sort("timestamp", maintain_order=True)


def some_rows(seed: int, count: int, *, span_s: int = 600) -> list[Row]:
    rng = np.random.default_rng(seed)
    absent = set(rng.choice(list(SCHEMA)[1:], rng.integers(0, 4)))

    def one(name: str, values: Sequence[object]) -> object:
        return None if name in absent or rng.random() < 0.15 else values[int(rng.integers(len(values)))]

    def row() -> Row:
        offset_us = int(rng.choice([rng.integers(0, span_s * 10**6), rng.integers(0, 5) * MINUTE_US]))
        return {
            "timestamp": START + timedelta(microseconds=offset_us),
            "input_tokens": one("input_tokens", [0, 1, 7, 100, 200, 511]),
            "output_tokens": one("output_tokens", [0, 1, 3, 50, 400]),
            "cached_tokens": one("cached_tokens", [0, 0, 5, 64]),
            "user": one("user", ["ann", "bob", "cid", "dan"]),
            "model": one("model", ["m1", "m2", "m3", "m4", "m5"]),
            "instance": one("instance", ["i1", "i2"]),
            "session": one("session", ["s1", "s2", "s3"]),
            "endpoint": one("endpoint", ["chat", "embed"]),
            "stream": one("stream", [True, False]),
            "status": one("status", ["ok", "ok", "ok", "timeout"]),
        }

    return [row() for _ in range(count)]


def us(time: datetime) -> int:
    return (time - datetime(1970, 1, 1)) // timedelta(microseconds=1)


def known(rows: list[Row], column: str) -> list[int]:
    return [row[column] for row in rows if row[column] is not None and row["status"] in {"ok", None}]


def total(values: list[int]) -> int | None:
    return sum(values) if values else None


def distinct(rows: list[Row], column: str) -> int | None:
    return len({row[column] for row in rows} - {None}) or None


def failures(rows: list[Row]) -> list[int]:
    return [int(row["status"] != "ok") for row in rows if row["status"] is not None]


def over(numerator: float | None, denominator: float | None) -> float | None:
    return None if numerator is None or not denominator else numerator / denominator


def mean(values: list[int]) -> float | None:
    return fmean(values) if values else None


def ratios(rows: list[Row]) -> list[float]:
    pairs = [(row["output_tokens"], row["input_tokens"]) for row in rows if row["status"] in {"ok", None}]
    return [out / top for out, top in pairs if out is not None and top]


def naive_scalars(rows: list[Row]) -> dict[str, Any]:
    times = [row["timestamp"] for row in rows]
    span_s = (max(times) - min(times)).total_seconds()
    sums = {column: total(known(rows, column)) for column in ("input_tokens", "output_tokens", "cached_tokens")}
    streams = [int(row["stream"]) for row in rows if row["stream"] is not None]
    both = [row for row in rows if row["input_tokens"] is not None and row["cached_tokens"] is not None]
    return {
        "requests": len(rows),
        "failed_requests": total(failures(rows)),
        **{f"{name}s": distinct(rows, name) for name in ("user", "model", "instance", "session")},
        **sums,
        "first_timestamp": min(times),
        "last_timestamp": max(times),
        "span_s": span_s,
        "interval_s": 60.0,
        "requests_per_s": over(len(rows), span_s),
        "input_tokens_per_s": over(sums["input_tokens"], span_s),
        "output_tokens_per_s": over(sums["output_tokens"], span_s),
        "input_tokens_per_request": mean(known(rows, "input_tokens")),
        "output_tokens_per_request": mean(known(rows, "output_tokens")),
        "median_input_tokens": median(known(rows, "input_tokens")) if known(rows, "input_tokens") else None,
        "median_output_tokens": median(known(rows, "output_tokens")) if known(rows, "output_tokens") else None,
        **naive_peaks(rows),
        "output_to_input_ratio": over(sums["output_tokens"], sums["input_tokens"]),
        "cached_to_input_ratio": over(total(known(both, "cached_tokens")), total(known(both, "input_tokens"))),
        "stream_ratio": mean(streams),
    }


def by_interval(rows: list[Row], width_us: int = MINUTE_US) -> dict[datetime, list[Row]]:
    """The rows of every interval from the first arrival to the last, empty ones too."""
    floors = [us(row["timestamp"]) // width_us * width_us for row in rows]
    grid = range(min(floors), max(floors) + 1, width_us)
    members = {start: [row for row, floor in zip(rows, floors, strict=True) if floor == start] for start in grid}
    return {datetime(1970, 1, 1) + timedelta(microseconds=start): found for start, found in members.items()}


def naive_peaks(rows: list[Row]) -> dict[str, float | None]:
    pairs = []
    for members in by_interval(rows).values():
        tokens = known(members, "input_tokens") + known(members, "output_tokens")
        if tokens or not members:
            pairs.append((len(members), sum(tokens)))
    counts = [len(members) for members in by_interval(rows).values()]
    requests, tokens = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    varies = len(pairs) >= 3 and len(set(requests)) > 1 and len(set(tokens)) > 1
    return {
        "peak_to_mean_requests": max(counts) / fmean(counts),
        "peak_to_mean_tokens": max(tokens) / fmean(tokens) if tokens and sum(tokens) else None,
        "rate_correlation": correlation(requests, tokens) if varies else None,
    }


def naive_rates(rows: list[Row]) -> list[Row]:
    def of(members: list[Row], column: str) -> int | None:
        empty = 0 if known(rows, column) else None
        return total(known(members, column)) if members else empty

    def unique(members: list[Row], column: str) -> int | None:
        empty = 0 if distinct(rows, column) else None
        return distinct(members, column) if members else empty

    table = []
    for time, members in by_interval(rows).items():
        means = mean(known(members, "input_tokens")), mean(known(members, "output_tokens"))
        sums = {column: of(members, column) for column in ("input_tokens", "output_tokens", "cached_tokens")}
        table.append(
            {
                "time": time,
                "requests": len(members),
                "failed_requests": total(failures(members)) if members else (0 if failures(rows) else None),
                **sums,
                "requests_per_s": len(members) / 60,
                **{f"{column}_per_s": over(value, 60) for column, value in sums.items()},
                "tokens_per_request": None if None in means else sum(means),  # type: ignore[arg-type]
                **{f"{name}s": unique(members, name) for name in ("user", "model", "instance")},
            }
        )
    return table


def naive_description(values: Sequence[float]) -> Row:
    quantiles = [float(value) for value in np.quantile(values, [percent / 100 for percent in PERCENTS])] if values else [None] * 9
    return {
        "requests": len(values),
        "mean": fmean(values) if values else None,
        "min": min(values, default=None),
        **{f"p{percent}": value for percent, value in zip(PERCENTS, quantiles, strict=True)},
        "max": max(values, default=None),
    }


def naive_lengths(rows: list[Row]) -> list[Row]:
    columns: dict[str, Sequence[float]] = {
        "input_tokens": known(rows, "input_tokens"),
        "output_tokens": known(rows, "output_tokens"),
        "cached_tokens": known(rows, "cached_tokens"),
        "output_to_input_ratio": ratios(rows),
    }
    return [{"column": name, **naive_description(values)} for name, values in columns.items()]


def ranked_models(rows: list[Row]) -> list[str | None]:
    """Most requests first, ties by name, the unknown model behind named ones of as many requests."""
    counts = Counter(row["model"] for row in rows)
    if not set(counts) - {None}:
        return []
    return sorted(counts, key=lambda model: (-counts[model], model is None, model or ""))


def naive_lengths_by_model(rows: list[Row]) -> list[Row]:
    found = []
    for model in ranked_models(rows):
        described = naive_lengths([row for row in rows if row["model"] == model])
        found += [{"model": model, **row} for row in described if row["requests"] and row["column"] != "cached_tokens"]
    return found


def naive_cdf(rows: list[Row]) -> list[Row]:
    top = [model for model in ranked_models(rows) if model is not None][:3]
    found = []
    for model in [None, *top]:
        members = [row for row in rows if model in {None, row["model"]}]
        for column in ("input_tokens", "output_tokens", "output_to_input_ratio"):
            values = ratios(members) if column == "output_to_input_ratio" else known(members, column)
            positive = [value for value in values if value > 0]
            steps = [step / 100 for step in range(101)] if positive else []
            found += [
                {"model": model, "column": column, "cumulative_ratio": step, "value": float(np.quantile(positive, step))}
                for step in steps
            ]
    return found


def naive_endpoints(rows: list[Row]) -> list[Row]:
    if distinct(rows, "endpoint") is None:
        return []
    return [
        {"time": time, "endpoint": endpoint, "requests": count, "requests_ratio": count / len(members)}
        for time, members in by_interval(rows).items()
        for endpoint, count in sorted(
            Counter(row["endpoint"] for row in members).items(), key=lambda item: (item[0] is None, item[0] or "")
        )
    ]


def naive_streaming(rows: list[Row]) -> list[Row]:
    found = []
    for time, members in by_interval(rows).items():
        streams = [row["stream"] for row in members if row["stream"] is not None]
        if streams:
            count = sum(streams)
            found.append(
                {"time": time, "known_requests": len(streams), "streamed_requests": count, "stream_ratio": count / len(streams)}
            )
    return found


def naive_hour_of_week(rows: list[Row]) -> list[Row]:
    first, last = (end(row["timestamp"] for row in rows).date() for end in (min, max))
    days: Counter[int] = Counter()
    day: date = first
    while day <= last:
        days[day.isoweekday()] += 1
        day += timedelta(days=1)
    counts = Counter((row["timestamp"].isoweekday(), row["timestamp"].hour) for row in rows)
    return [
        {
            "weekday": weekday,
            "hour": hour,
            "requests": counts[weekday, hour],
            "days": days[weekday],
            "requests_per_day": counts[weekday, hour] / days[weekday] if days[weekday] else None,
        }
        for weekday in range(1, 8)
        for hour in range(24)
    ]


def assert_close(found: list[Row], expected: list[Row], rel: float = 1e-9) -> None:
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.keys() == theirs.keys()
        for name, value in theirs.items():
            bound = max(rel, 2**-9 + 1e-6) if "ratio" in str(ours.get("column")) else rel
            absolute = 1.1e-6 if "ratio" in str(ours.get("column")) else 1e-12
            wanted = pytest.approx(value, rel=bound, abs=absolute) if isinstance(value, float) else value
            assert ours[name] == wanted, (name, ours, theirs)


@given(st.integers(0, 10**6), st.integers(1, 60), st.lists(st.integers(0, 60), max_size=3))
def test_every_number_is_the_oracles(measured: Measured, seed: int, count: int, cuts: list[int]) -> None:
    rows = sorted(some_rows(seed, count), key=lambda row: row["timestamp"])
    result = measured(Stats("1m"), frame_of(rows), [min(cut, count) for cut in cuts])
    assert_close([dict(result.scalars)], [naive_scalars(rows)])
    assert list(result.scalars)[:3] == ["requests", "failed_requests", "users"]
    assert_close(result.tables["rates"].to_dicts(), naive_rates(rows))
    assert_close(result.tables["lengths"].to_dicts(), naive_lengths(rows))
    assert_close(result.tables["lengths_by_model"].to_dicts(), naive_lengths_by_model(rows))
    assert_close(result.tables["length_cdf"].to_dicts(), naive_cdf(rows))
    assert_close(result.tables["endpoints"].to_dicts(), naive_endpoints(rows))
    assert_close(result.tables["streaming"].to_dicts(), naive_streaming(rows))
    assert_close(result.tables["hour_of_week"].to_dicts(), naive_hour_of_week(rows))


def row_at(time: datetime, **values: object) -> Row:
    return dict.fromkeys(SCHEMA) | {"timestamp": time} | values


def test_no_requests_are_zero_requests_and_nothing_else_is_known(measured: Measured) -> None:
    result = measured(Stats("1m"), frame_of([]))
    known_scalars = {name: value for name, value in result.scalars.items() if value is not None}
    assert known_scalars == {"requests": 0, "interval_s": 60.0}
    assert {name: table.height for name, table in result.tables.items() if table.height} == {"lengths": 4}
    assert result.notes == ()


def test_a_single_request_has_no_rates_over_its_span(measured: Measured) -> None:
    result = measured(Stats(), frame_of([row_at(START, input_tokens=5, output_tokens=2)]))
    rates = {
        name: result.scalars[name] for name in ("requests_per_s", "input_tokens_per_s", "output_tokens_per_s", "rate_correlation")
    }
    assert set(rates.values()) == {None}
    assert result.scalars["span_s"] == 0
    assert result.scalars["interval_s"] == 1
    assert result.scalars["peak_to_mean_tokens"] == 1
    assert result.table().height == 1


def test_an_interval_holds_its_start_and_not_its_end(measured: Measured) -> None:
    tick = timedelta(microseconds=1)
    noon = datetime(2025, 4, 11, 12)
    rows = [row_at(noon - tick), row_at(noon), row_at(noon + timedelta(hours=1) - tick), row_at(noon + timedelta(hours=1))]
    rates = measured(Stats("1h"), frame_of(rows)).table()
    assert rates.select("time", "requests").rows() == [(noon - timedelta(hours=1), 1), (noon, 2), (noon + timedelta(hours=1), 1)]


def test_weeks_begin_on_monday(measured: Measured) -> None:
    rows = [row_at(datetime(2025, 4, 13, 23)), row_at(datetime(2025, 4, 14))]
    assert measured(Stats("1w"), frame_of(rows)).table()["time"].to_list() == [datetime(2025, 4, 7), datetime(2025, 4, 14)]


def test_sums_of_huge_values_do_not_wrap(measured: Measured) -> None:
    huge = 2**62
    rows = [
        row_at(START + timedelta(seconds=second), input_tokens=huge, output_tokens=1, cached_tokens=huge) for second in range(8)
    ]
    result = measured(Stats("1m"), frame_of(rows), [3, 5])
    assert result.scalars["input_tokens"] == 8 * huge
    assert result.scalars["cached_to_input_ratio"] == 1
    assert result.scalars["median_input_tokens"] == float(huge)
    assert result.table()["input_tokens"].to_list() == [8 * huge]
    assert result.table()["output_tokens"].dtype == pl.Int64
    assert result.tables["lengths"]["mean"].to_list()[:2] == [float(huge), 1.0]


def test_failed_requests_count_as_requests_and_their_tokens_nowhere(measured: Measured) -> None:
    rows = [
        row_at(START, input_tokens=100, output_tokens=10, cached_tokens=50, status="ok"),
        row_at(START, input_tokens=900, output_tokens=90, cached_tokens=900, status="timeout"),
        row_at(START, input_tokens=300, output_tokens=30, status=None),
    ]
    scalars = measured(Stats("1m"), frame_of(rows)).scalars
    assert (scalars["requests"], scalars["failed_requests"]) == (3, 1)
    assert (scalars["input_tokens"], scalars["output_tokens"], scalars["cached_tokens"]) == (400, 40, 50)
    assert scalars["cached_to_input_ratio"] == 0.5


def test_cached_tokens_of_zero_are_not_unknown(measured: Measured) -> None:
    rows = [row_at(START, input_tokens=8, cached_tokens=0), row_at(START + timedelta(minutes=2), input_tokens=8)]
    result = measured(Stats("1m"), frame_of(rows))
    assert result.scalars["cached_tokens"] == 0
    assert result.scalars["cached_to_input_ratio"] == 0
    assert result.table()["cached_tokens"].to_list() == [0, 0, None]


@pytest.mark.parametrize(
    ("first", "last", "days"),
    [
        (datetime(2025, 4, 11, 23, 59), datetime(2025, 4, 12, 0, 1), [0, 0, 0, 0, 1, 1, 0]),
        (datetime(2025, 4, 7), datetime(2025, 4, 13, 23), [1, 1, 1, 1, 1, 1, 1]),
        (datetime(2025, 4, 7), datetime(2025, 4, 14, 1), [2, 1, 1, 1, 1, 1, 1]),
        (datetime(2025, 4, 13, 12), datetime(2025, 4, 22), [2, 2, 1, 1, 1, 1, 2]),
        (datetime(1969, 12, 31, 23), datetime(1970, 1, 1), [0, 0, 1, 1, 0, 0, 0]),
    ],
)
def test_hours_of_the_week_are_over_the_days_of_that_weekday(
    measured: Measured, first: datetime, last: datetime, days: list[int]
) -> None:
    table = measured(Stats("1d"), frame_of([row_at(first), row_at(last)])).tables["hour_of_week"]
    assert table.height == 168
    assert table.filter(pl.col("hour") == 0)["days"].to_list() == days
    busy = table.filter(pl.col("requests") > 0)
    assert set(busy.select("weekday", "hour").iter_rows()) == {(first.isoweekday(), first.hour), (last.isoweekday(), last.hour)}
    assert busy["requests_per_day"].to_list() == [1 / days[weekday - 1] for weekday in busy["weekday"]]


def test_with_very_many_intervals_only_those_with_requests_are_listed(measured: Measured) -> None:
    rows = [row_at(START, input_tokens=1), row_at(START + timedelta(seconds=100_000), input_tokens=3)]
    result = measured(Stats("1s"), frame_of(rows))
    assert result.table()["requests"].to_list() == [1, 1]
    assert result.scalars["peak_to_mean_requests"] == pytest.approx(100_001 / 2)
    assert result.scalars["peak_to_mean_tokens"] == pytest.approx(3 / (4 / 100_001))
    xs, ys = [1, 1, *[0] * 99_999], [1, 3, *[0] * 99_999]
    assert result.scalars["rate_correlation"] == pytest.approx(correlation(xs, ys))
    assert any("Of 100,001 intervals of 1s" in note for note in result.notes)
    assert measured(Stats("1s"), frame_of([rows[0], row_at(START + timedelta(seconds=99_999))])).table().height == 100_000


def test_the_top_models_are_those_with_most_requests_and_ties_go_by_name(measured: Measured) -> None:
    models = ["d", "c", "b", "a", "a", "b", None, None, None]
    rows = [row_at(START, model=model, input_tokens=9, output_tokens=3) for model in models]
    tables = measured(Stats("1m"), frame_of(rows)).tables
    assert tables["length_cdf"]["model"].unique(maintain_order=True).to_list() == [None, "a", "b", "c"]
    assert tables["lengths_by_model"]["model"].unique(maintain_order=True).to_list() == [None, "a", "b", "c", "d"]


def test_auto_takes_an_interval_for_the_span(measured: Measured) -> None:
    rows = [row_at(START), row_at(START + timedelta(days=10))]
    result = measured(Stats(), frame_of(rows))
    assert result.parameters == {"interval": "1h"}
    assert result.table().height == 241


def test_an_interval_must_be_fixed_before_a_part_is_summarised() -> None:
    with pytest.raises(ValueError, match="for_span"):
        Stats().partial(frame_of([]).lazy())


@pytest.mark.parametrize("interval", ["", "hour", "1.5h", "0s", "-1h", "1mo"])
def test_an_interval_that_is_none_is_a_usage_error(interval: str) -> None:
    with pytest.raises(UsageError, match="--interval"):
        Stats(interval)


class TestNotes:
    def test_absent_columns_are_named(self, measured: Measured) -> None:
        rows = [row_at(START, input_tokens=1, output_tokens=1, user="ann", status="ok")]
        notes = measured(Stats("1m"), frame_of(rows)).notes
        assert "The trace does not say cached_tokens, model, instance, session, endpoint, stream: " in notes[0]

    def test_nothing_is_absent_from_a_full_trace(self, measured: Measured) -> None:
        full = {"input_tokens": 1, "output_tokens": 1, "cached_tokens": 0, "stream": True, "status": "ok"}
        names = dict.fromkeys(("user", "model", "instance", "session", "endpoint"), "x")
        assert not any("does not say" in note for note in measured(Stats("1m"), frame_of([row_at(START, **full, **names)])).notes)

    def test_few_requests_are_told(self, measured: Measured) -> None:
        assert any("only 99 requests" in note for note in measured(Stats("1m"), frame_of([row_at(START)] * 99)).notes)
        assert not any("only" in note for note in measured(Stats("1d"), frame_of([row_at(START)] * 100)).notes)

    def test_partial_edges_are_told_by_how_much(self, measured: Measured) -> None:
        first = datetime(2025, 4, 11, 0, 45)
        rows = [row_at(first), row_at(datetime(2025, 4, 11, 5, 30))]
        (note,) = (note for note in measured(Stats("1h"), frame_of(rows)).notes if "covers" in note)
        assert (
            note == "The trace covers the first interval to 25% and the last interval to 50% only: the rates there read too low."
        )

    def test_edges_that_are_nearly_whole_are_not_told(self, measured: Measured) -> None:
        rows = [row_at(datetime(2025, 4, 11, 0, 1)), row_at(datetime(2025, 4, 11, 5, 59))]
        assert not any("covers" in note for note in measured(Stats("1h"), frame_of(rows)).notes)

    def test_a_trace_within_one_interval_is_told(self, measured: Measured) -> None:
        assert any("within one interval (1d)" in note for note in measured(Stats("1d"), frame_of([row_at(START)])).notes)

    def test_requests_and_tokens_that_move_apart_are_told_with_numbers(self, measured: Measured) -> None:
        tokens = [10, 10, 10, 970]
        rows = [row_at(START + timedelta(minutes=minute), input_tokens=count) for minute, count in enumerate(tokens)]
        rows += [row_at(START, input_tokens=0)]
        (note,) = (note for note in measured(Stats("1m"), frame_of(rows)).notes if "apart" in note)
        assert "1.60 times the mean for requests and 3.88 times for tokens" in note
        assert "correlation over intervals is -0.33" in note

    def test_requests_and_tokens_that_move_together_are_not(self, measured: Measured) -> None:
        rows = [row_at(START + timedelta(minutes=minute), input_tokens=7) for minute in (0, 0, 0, 1, 2, 2)]
        assert not any("apart" in note for note in measured(Stats("1m"), frame_of(rows)).notes)

    @pytest.mark.parametrize(
        ("tokens", "told"), [(511, set()), (512, {"per model"}), (4095, {"per model"}), (4096, {"overall", "per model"})]
    )
    def test_the_bound_of_percentiles_is_told_where_it_binds(self, measured: Measured, tokens: int, told: set[str]) -> None:
        rows = [row_at(START, model="m", input_tokens=tokens)]
        notes = " ".join(note for note in measured(Stats("1m"), frame_of(rows)).notes if "Percentiles" in note)
        assert {scope for scope in ("overall", "per model") if scope in notes} == told
        assert ("within 0.196% from 512 tokens" in notes) == ("per model" in told)
        assert ("within 0.025% from 4,096 tokens" in notes) == ("overall" in told)
