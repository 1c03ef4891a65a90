"""Times: every dialect against Python's own calendar."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from llmtrace.errors import UsageError
from llmtrace.formats.layout import Raw
from llmtrace.formats.source import find
from llmtrace.formats.times import arrivals

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from llmtrace.formats.layout import Clock, TimeUnit
    from llmtrace.formats.times import Arrivals

BAD = "BAD"
EPOCH = datetime(1970, 1, 1)
NOON = datetime(2024, 5, 12, 12)


def understood(
    values: Sequence[Any],
    dtype: pl.DataType | None = None,
    *,
    unit: TimeUnit | None = None,
    tz: str | None = None,
    clock: Clock | None = None,
) -> tuple[Arrivals, list[Any]]:
    """A time column of these raw values: how it is understood, and its times; bad ones as BAD."""
    frame = pl.DataFrame({"t": pl.Series(values, dtype=dtype or pl.String())})
    found = arrivals(Raw("trace.csv", "csv", dict(frame.schema), frame.head(100).select), "t", unit=unit, tz=tz, clock=clock)
    flag = pl.lit(value=False) if found.cell.bad is None else found.cell.bad
    whole = frame.lazy().select(value=found.cell.value, bad=flag).collect()
    assert whole.schema["value"] == pl.Datetime("us")
    single = [
        row for index in range(len(frame)) for row in frame[index : index + 1].select(value=found.cell.value, bad=flag).rows()
    ]
    assert whole.rows() == single
    return found, [BAD if bad else value for value, bad in whole.rows()]


def times(
    values: Sequence[Any], dtype: pl.DataType | None = None, *, unit: TimeUnit | None = None, tz: str | None = None
) -> list[Any]:
    return understood(values, dtype, unit=unit, tz=tz)[1]


SPELLINGS: list[tuple[str | None, object]] = [
    ("2023-11-16 18:17:03.9799600", datetime(2023, 11, 16, 18, 17, 3, 979960)),
    ("2023-11-16 18:17:03.9799609", datetime(2023, 11, 16, 18, 17, 3, 979960)),
    ("2023-11-16 18:17:03.123456789", datetime(2023, 11, 16, 18, 17, 3, 123456)),
    ("2023-11-16 18:17:03.999999999", datetime(2023, 11, 16, 18, 17, 3, 999999)),
    ("2024-05-12 00:00:00.001163+00:00", datetime(2024, 5, 12, 0, 0, 0, 1163)),
    ("2024-05-12 00:00:10+00:00", datetime(2024, 5, 12, 0, 0, 10)),
    ("2024-05-12T12:00:00Z", NOON),
    ("2024-05-12T12:00:00.5Z", NOON.replace(microsecond=500_000)),
    ("2024-05-12T12:00:00.191Z", NOON.replace(microsecond=191_000)),
    ("2024-05-12 12:00:00.25", NOON.replace(microsecond=250_000)),
    ("2024-05-12 12:00:00", NOON),
    ("2024-05-12t12:00:00z", NOON),
    ("2024-05-12 14:00:00+02:00", NOON),
    ("2024-05-12 14:00:00+0200", NOON),
    ("2024-05-12 14:00:00.5+02", NOON.replace(microsecond=500_000)),
    ("2024-05-12 06:30:00-05:30", NOON),
    ("2024-05-12 12:00:00 +00:00", NOON),
    ("2024-05-12 12:00:00 +0000 UTC", NOON),
    ("2024-05-12 12:00:00 UTC", NOON),
    ("2024-05-12 12:00:00 GMT", NOON),
    ("2024-05-12 12:00:00,123", NOON.replace(microsecond=123_000)),
    ("  2024-05-12 12:00:00  ", NOON),
    ("2024-02-29 00:00:00", datetime(2024, 2, 29)),
    ("2023-02-29 00:00:00", BAD),
    ("2024-13-01 00:00:00", BAD),
    ("2024-05-12 24:00:00", BAD),
    ("2024-05-12 12:00:00+99:00", BAD),
    ("2024-05-12 12:00:00 later", BAD),
    ("12/05/2024 12:00", BAD),
    ("yesterday", BAD),
    ("", None),
    ("-", None),
    ("NULL", None),
    ("\\N", None),
    (None, None),
]


@pytest.mark.parametrize(("raw", "expected"), SPELLINGS, ids=repr)
@pytest.mark.parametrize(
    "first",
    [
        "2024-01-01 00:00:00",
        "2024-01-01T00:00:00Z",
        "2024-01-01 00:00:00.000",
        "2024-01-01 00:00:00.0000000",
        "2024-01-01 00:00:00.000000+00:00",
        "2024-01-01T00:00:00+02:00",
        "2024-01-01 00:00:00.25",
    ],
)
def test_every_spelling_beside_every_other(first: str, raw: str | None, expected: object) -> None:
    assert times([first, first, first, raw])[3] == expected


def test_short_forms() -> None:
    words = ["2024-05-12", "2024-05-12 12:00", "2024-05-12T12:00Z", "2024-05-12 14:00+02:00", "2024-05-12 12:00:00.5"]
    assert times(words) == [datetime(2024, 5, 12), NOON, NOON, NOON, NOON.replace(microsecond=500_000)]


@given(
    moments=st.lists(st.datetimes(datetime(1973, 4, 1), datetime(2200, 1, 1)), min_size=1, max_size=30),
    between=st.sampled_from(" T"),
    zones=st.lists(st.sampled_from(["", "Z", "+00:00", "+05:30", "-0800"]), min_size=30, max_size=30),
    digits=st.lists(st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 9]), min_size=30, max_size=30),
)
def test_any_mixture_of_spellings(moments: list[datetime], between: str, zones: list[str], digits: list[int]) -> None:
    words, expected = [], []
    for moment, zone, places in zip(moments, zones, digits, strict=False):
        fraction = f"{moment.microsecond:06d}789"[:places]
        words.append(f"{moment:%Y-%m-%d}{between}{moment:%H:%M:%S}" + (f".{fraction}" if fraction else "") + zone)
        kept = int(fraction[:6].ljust(6, "0")) if fraction else 0
        aware = datetime.fromisoformat(f"{moment:%Y-%m-%dT%H:%M:%S}{zone or 'Z'}").replace(microsecond=kept)
        expected.append(aware.astimezone(UTC).replace(tzinfo=None))
    assert times(words) == expected


NUMBERS: list[tuple[float | int, datetime]] = [
    (1_700_000_000, datetime(2023, 11, 14, 22, 13, 20)),
    (1_700_000_000_123, datetime(2023, 11, 14, 22, 13, 20, 123_000)),
    (1_760_428_436_442_742, datetime(2025, 10, 14, 7, 53, 56, 442_742)),
    (1_700_000_000_123_456_789, datetime(2023, 11, 14, 22, 13, 20, 123_456)),
    (1777142984.5786855, datetime(2026, 4, 25, 18, 49, 44, 578_686)),
]


@pytest.mark.parametrize(("number", "expected"), NUMBERS)
def test_size_tells_the_unit(number: float, expected: datetime) -> None:
    dtype = pl.Int64() if isinstance(number, int) else pl.Float64()
    assert times([number], dtype) == [expected]
    found, read = understood([repr(number), f" {number!r} "])
    assert read[0] == expected
    assert abs(read[1] - expected) < timedelta(milliseconds=1)
    assert found.clock == "utc"


@pytest.mark.parametrize("values", [["0", "12", "3000"], ["19440110.0"], ["5000000000"], ["0"], ["-1"]])
def test_small_numbers_do_not_tell_their_unit(values: list[str]) -> None:
    with pytest.raises(UsageError, match=r"trace\.csv: the numbers in 't'.* do not tell their unit") as caught:
        times(values if values != ["-1"] else ["-1", "5"])
    assert "--time-unit" in caught.value.hint


def test_the_numbers_that_do_not_tell_their_unit_are_among_those_there_are() -> None:
    with pytest.raises(UsageError, match="such as -5, do not tell"):
        times(["-5", "-7"])


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        ("s", "61.114", timedelta(seconds=61, microseconds=114_000)),
        ("s", "82", timedelta(seconds=82)),
        ("ms", "3536999", timedelta(milliseconds=3_536_999)),
        ("ms", "0.5", timedelta(microseconds=500)),
        ("us", "17", timedelta(microseconds=17)),
        ("ns", "1999", timedelta(microseconds=1)),
        ("s", "1e3", timedelta(seconds=1000)),
    ],
)
def test_relative_numbers_in_a_unit(unit: TimeUnit, value: str, expected: timedelta) -> None:
    found, read = understood([value], unit=unit)
    assert (found.clock, read) == ("relative", [EPOCH + expected])


def test_a_unit_that_is_given_beats_the_size() -> None:
    found, read = understood([1_700_000_000_000], pl.Int64(), unit="us")
    assert (found.clock, read) == ("relative", [EPOCH + timedelta(microseconds=1_700_000_000_000)])


def test_epoch_numbers_in_a_unit_that_is_given_are_utc() -> None:
    found, read = understood(["1700000000.25"], unit="s")
    assert (found.clock, read) == ("utc", [datetime(2023, 11, 14, 22, 13, 20, 250_000)])


@pytest.mark.parametrize(
    ("value", "expected"), [("-1", None), ("-2", BAD), ("", None), ("NaN", None), ("inf", BAD), ("1e30", BAD), ("soon", BAD)]
)
def test_numbers_that_are_no_times(value: str, expected: object) -> None:
    assert times(["1", "2", "3", value], unit="s")[3] == expected


@pytest.mark.parametrize(
    "word", ["0001-01-01T00:00:00Z", "9999-12-31 23:59:59.999999", "2262-04-13 00:00:00", "1677-09-20 00:00:00"]
)
def test_marks_for_no_time_are_bad_in_text(word: str) -> None:
    plain = "2024-05-12 12:00:00"
    assert times([plain, word]) == [NOON, BAD]
    assert times([plain, word], tz="Europe/Berlin")[1] == BAD
    assert times(["2262-04-11 23:00:00", "1677-09-22 00:00:00"]) == [datetime(2262, 4, 11, 23), datetime(1677, 9, 22)]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@example([9_223_372_036_854_775, 9_223_372_036_854_776])
@example([-1])
@given(st.lists(st.integers(-5, 2**63 - 1) | st.integers(0, 10**12), min_size=1))
def test_whole_numbers_are_exact_and_never_wrap(unit: TimeUnit, values: list[int]) -> None:
    last = timedelta(microseconds=2**63 // 1000)
    expected: list[object] = []
    for value in values:
        us = value * 10**6 // {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
        fits = value >= 0 and us <= last // timedelta(microseconds=1)
        expected.append(EPOCH + timedelta(microseconds=us) if fits else None if value == -1 else BAD)
    assert times(values, pl.Int64(), unit=unit) == expected
    assert times([str(value) for value in values] or ["0"], unit=unit) == expected


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (pl.Datetime("ms"), NOON),
        (pl.Datetime("us"), NOON),
        (pl.Datetime("ns"), NOON),
        (pl.Datetime("us", "UTC"), NOON.replace(tzinfo=UTC)),
        (pl.Datetime("ns", "America/New_York"), NOON.replace(tzinfo=UTC)),
        (pl.Date(), date(2024, 5, 12)),
    ],
    ids=str,
)
def test_times_of_parquet_in_every_unit_and_zone(dtype: pl.DataType, value: object) -> None:
    found, read = understood([value, None], dtype)
    expected = datetime(2024, 5, 12) if dtype == pl.Date else NOON
    assert (found.clock, found.cell.bad, read) == ("utc", None, [expected, None])


def test_a_plain_column_of_times_is_read_as_it_is() -> None:
    assert understood([NOON], pl.Datetime("us"))[0].cell.value.meta.eq(pl.col("t"))


def test_nanoseconds_are_cut_to_microseconds() -> None:
    series = pl.Series([1_999, 2_000]).cast(pl.Datetime("ns"))
    assert times(series.to_physical().to_list(), pl.Datetime("ns")) == [EPOCH + timedelta(microseconds=us) for us in (1, 2)]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([datetime(1970, 1, 1), datetime(1970, 10, 30, 20)], pl.Datetime("us")),
        (["1970-10-30 20:00:00.075856"], pl.String()),
        ([timedelta(days=400)], pl.Duration("ms")),
    ],
    ids=str,
)
def test_times_before_1973_are_elapsed(values: list[Any], dtype: pl.DataType) -> None:
    found, read = understood(values, dtype)
    assert found.clock == "relative"
    assert read[-1] == (EPOCH + values[-1] if dtype == pl.Duration else datetime.fromisoformat(str(values[-1])))


def test_the_clock_that_is_said_beats_the_dates() -> None:
    assert understood([datetime(1970, 1, 2)], pl.Datetime("us"), clock="utc")[0].clock == "utc"
    assert understood([NOON], pl.Datetime("us"), clock="relative")[0].clock == "relative"


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (pl.Boolean(), [True, None], [BAD, None]),
        (pl.List(pl.Int64()), [[1], None], [BAD, None]),
        (pl.Null(), [None, None], [None, None]),
        (pl.Decimal(20, 3), [Decimal("1700000000.250"), None], [datetime(2023, 11, 14, 22, 13, 20, 250_000), None]),
    ],
    ids=str,
)
def test_other_dtypes(dtype: pl.DataType, values: list[Any], expected: list[object]) -> None:
    assert times(values, dtype) == expected


def test_an_empty_column_is_understood() -> None:
    assert understood([])[0].clock == "utc"
    assert understood([], unit="ms")[0].clock == "utc"
    assert understood([], pl.Int64(), unit="ms")[0].clock == "relative"


NEW_YORK = "America/New_York"


@pytest.mark.parametrize("dtype", [pl.String(), pl.Datetime("us"), pl.Datetime("ms")], ids=str)
def test_wall_clocks_in_a_zone(dtype: pl.DataType) -> None:
    walls = [datetime(2024, 7, 1, 8), datetime(2024, 1, 1, 8), datetime(2024, 11, 3, 1, 30), datetime(2024, 3, 10, 2, 30)]
    values: list[Any] = [f"{wall}" for wall in walls] if dtype == pl.String else walls
    found, read = understood(values, dtype, tz=NEW_YORK)
    assert read == [
        datetime(2024, 7, 1, 12),
        datetime(2024, 1, 1, 13),
        datetime(2024, 11, 3, 5, 30),  # the earlier of 01:30 EDT and 01:30 EST
        datetime(2024, 3, 10, 7),  # there is no 02:30: 03:00 EDT, the end of the gap
    ]
    frame = pl.DataFrame({"t": pl.Series(values, dtype=dtype)})
    twice, skipped = frame.select(flag.sum().alias(sentence) for sentence, flag in found.counted.items())
    assert (twice.item(), skipped.item()) == (1, 1)
    assert all("{count}" in sentence and NEW_YORK in sentence for sentence in found.counted)


@given(st.lists(st.datetimes(datetime(2020, 1, 1), datetime(2026, 1, 1)), min_size=1, max_size=20))
def test_any_wall_clock_in_a_zone(walls: list[datetime]) -> None:
    zone = ZoneInfo(NEW_YORK)
    expected = []
    for wall in walls:
        utc = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
        exists = utc.astimezone(zone).replace(tzinfo=None) == wall
        end_of_gap = wall.replace(minute=0, second=0, microsecond=0, tzinfo=zone).astimezone(UTC)
        expected.append((utc if exists else end_of_gap).replace(tzinfo=None))
    assert times(walls, pl.Datetime("us"), tz=NEW_YORK) == expected


def test_an_offset_beats_the_zone_and_numbers_have_none() -> None:
    assert times(["2024-07-01 08:00:00", "2024-07-01T08:00:00Z", "2024-07-01 08:00:00+02:00"], tz=NEW_YORK) == [
        datetime(2024, 7, 1, hour) for hour in (12, 8, 6)
    ]
    assert times(["2024-07-01T08:00:00Z", "2024-07-01 08:00:00"], tz=NEW_YORK) == [datetime(2024, 7, 1, hour) for hour in (8, 12)]
    assert times([1_700_000_000], pl.Int64(), tz=NEW_YORK) == [datetime(2023, 11, 14, 22, 13, 20)]
    aware = NOON.replace(tzinfo=UTC)
    assert times([aware], pl.Datetime("us", "UTC"), tz=NEW_YORK) == [NOON]


def test_a_relative_clock_has_no_zone() -> None:
    assert times([datetime(1970, 1, 1, 5)], pl.Datetime("us"), tz=NEW_YORK) == [datetime(1970, 1, 1, 5)]


def test_a_zone_that_does_not_exist() -> None:
    for zone in ("Mars/Olympus", "", "../etc/passwd", "EST5 EDT"):
        with pytest.raises(UsageError, match=f"--tz {zone}: there is no such time zone"):
            times(["2024-07-01 08:00:00"], tz=zone)


DAY = timedelta(days=1)
ELAPSED, DATED = datetime(1970, 1, 1), datetime(2024, 5, 12)


@pytest.mark.parametrize(
    ("moments", "statistics", "expected", "looks"),
    [
        pytest.param([DATED, DATED + DAY], True, "utc", False, id="dated"),
        pytest.param([ELAPSED, ELAPSED + DAY], True, "relative", False, id="elapsed"),
        pytest.param([None] * 200 + [ELAPSED], True, "relative", False, id="unknown at first"),
        pytest.param([ELAPSED] * 200 + [DATED], True, "relative", True, id="elapsed at first"),
        pytest.param([DATED] * 200 + [ELAPSED], True, "utc", True, id="dated at first"),
        pytest.param([ELAPSED, DATED], False, "utc", True, id="no statistics"),
        pytest.param([None, None], True, "utc", True, id="all unknown"),
        pytest.param([], True, "utc", True, id="empty"),
        pytest.param([datetime(1, 1, 1), ELAPSED, datetime(9999, 12, 31)], True, "relative", True, id="marks at both ends"),
        pytest.param([datetime(1, 1, 1)] * 2, True, "utc", True, id="marks alone"),
    ],
)
def test_the_clock_of_parquet_is_taken_from_its_footer_where_that_is_clear(
    tmp_path: Path, moments: list[datetime | None], expected: str, *, statistics: bool, looks: bool
) -> None:
    pl.DataFrame({"t": moments}, {"t": pl.Datetime("us")}).write_parquet(
        tmp_path / "t.parquet", row_group_size=150, statistics=statistics
    )
    [source] = find([str(tmp_path / "t.parquet")])
    raw, asked = source.raw(), []

    def first_rows(columns: Sequence[str]) -> pl.DataFrame:
        asked.append(columns)
        return raw.first_rows(columns)

    assert arrivals(replace(raw, first_rows=first_rows), "t").clock == expected
    assert bool(asked) == looks
