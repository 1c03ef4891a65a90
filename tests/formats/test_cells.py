"""Cells: every spelling of a value, every dtype, and the difference between missing and unreadable."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.formats import cells

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llmtrace.formats.layout import Cell, TimeUnit

BAD = "BAD"
"""An expected cell that is null and bad; None is one that is null and missing."""


def evaluated(cell: Cell, values: Sequence[Any], dtype: pl.DataType) -> list[Any]:
    """The cell on these raw values, bad ones as BAD, each row also on its own: nothing may depend on its neighbours."""
    frame = pl.DataFrame({"x": pl.Series(values, dtype=dtype)})
    flag = pl.lit(value=False) if cell.bad is None else cell.bad
    whole = frame.lazy().select(value=cell.value, bad=flag).collect().rows()
    single = [row for index in range(len(frame)) for row in frame[index : index + 1].select(value=cell.value, bad=flag).rows()]
    assert whole == single
    assert not any(bad and value is not None for value, bad in whole)
    return [BAD if bad else value for value, bad in whole]


MISSING = ["", " ", "-", "NULL", "null", "None", "NA", "N/A", "nan", "NaN", "\\N", None]

COUNTS: list[tuple[str | None, object]] = [
    *((marker, None) for marker in [*MISSING, "-1", "-1.0", " -1 "]),
    ("0", 0),
    ("63", 63),
    ("63.0", 63),
    ("63.", 63),
    (" 12 ", 12),
    ("+7", 7),
    ("007", 7),
    ("1e3", 1000),
    ("1,234", 1234),
    ("1,234,567", 1234567),
    ("1,234.0", 1234),
    ("1'234", 1234),
    ("12 345", 12345),
    ("12\u00a0345", 12345),
    ("12\u202f345", 12345),
    (str(2**63 - 1), 2**63 - 1),
    (str(2**63), BAD),
    (str(2**64), BAD),
    ("1e30", BAD),
    ("-2", BAD),
    ("-7.0", BAD),
    ("1.5", BAD),
    ("1234,567", BAD),
    ("1,2345", BAD),
    ("0,532", BAD),
    ("1,23", BAD),
    ("inf", BAD),
    ("many", BAD),
    ("0x10", BAD),
    ("[1]", BAD),
]


@pytest.mark.parametrize(("raw", "expected"), COUNTS, ids=repr)
def test_count_from_text(raw: str | None, expected: object) -> None:
    assert evaluated(cells.count("x", pl.String()), [raw], pl.String()) == [expected]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("63,0", 63),
        ("63,5", BAD),
        ("1.234,0", 1234),
        ("1.234", BAD),
        ("1,234", BAD),
        ("12", 12),
        ("1 234", 1234),
        ("-1,0", None),
        ("-2,0", BAD),
        ("-1", None),
    ],
)
def test_count_with_decimal_comma(raw: str, expected: object) -> None:
    assert evaluated(cells.count("x", pl.String(), decimal_comma=True), [raw], pl.String()) == [expected]


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (pl.Int64(), [5, 0, -1, -2, None, 2**63 - 1, -(2**63)], [5, 0, None, BAD, None, 2**63 - 1, BAD]),
        (pl.Int32(), [5, -1, -7], [5, None, BAD]),
        (pl.UInt8(), [255, 0, None], [255, 0, None]),
        (pl.UInt64(), [2**63 - 1, 2**63, 2**64 - 1], [2**63 - 1, BAD, BAD]),
        (pl.Int128(), [5, 2**63, -1, -(2**70)], [5, BAD, None, BAD]),
        (pl.Float32(), [63.0, 15_400_000.0, 1.5, None], [63, 15_400_000, BAD, None]),
        (pl.Float64(), [-1.0, -2.0, float("nan"), float("inf"), 1e19, 2.0**53], [None, BAD, None, BAD, BAD, 2**53]),
        (pl.Decimal(10, 1), [Decimal("63.0"), Decimal("1.5"), Decimal("-1.0"), None], [63, BAD, None, None]),
        (pl.Null(), [None, None], [None, None]),
        (pl.Boolean(), [True, None], [BAD, None]),
        (pl.List(pl.Int64()), [[1], None], [BAD, None]),
        (pl.Datetime("us"), [None], [None]),
    ],
    ids=str,
)
def test_count_from_dtype(dtype: pl.DataType, values: list[Any], expected: list[object]) -> None:
    cell = cells.count("x", dtype)
    assert evaluated(cell, values, dtype) == expected
    assert pl.DataFrame({"x": pl.Series(values, dtype=dtype)}).select(cell.value).dtypes == [pl.Int64]


@given(st.lists(st.integers(-(2**70), 2**70)))
def test_count_never_wraps(numbers: list[int]) -> None:
    expected = [number if 0 <= number < 2**63 else None if number == -1 else BAD for number in numbers]
    assert evaluated(cells.count("x", pl.String()), [str(number) for number in numbers], pl.String()) == expected


SECONDS: list[tuple[str | None, object]] = [
    *((marker, None) for marker in MISSING),
    ("0", 0.0),
    ("1.5", 1.5),
    (" 0.25 ", 0.25),
    ("1e-3", 0.001),
    ("1,234.5", 1234.5),
    ("1,234", BAD),
    ("0,532", BAD),
    ("-1", BAD),
    ("-0.5", BAD),
    ("inf", BAD),
    ("1e999", BAD),
    ("fast", BAD),
]


@pytest.mark.parametrize(("raw", "expected"), SECONDS, ids=repr)
def test_seconds_from_text(raw: str | None, expected: object) -> None:
    assert evaluated(cells.seconds("x", pl.String()), [raw], pl.String()) == [expected]


@pytest.mark.parametrize(
    ("raw", "expected"), [("0,532", 0.532), ("1,234", 1.234), ("1.234,5", 1234.5), ("1.234", 1.234), ("-0,5", BAD)]
)
def test_seconds_with_decimal_comma(raw: str, expected: object) -> None:
    assert evaluated(cells.seconds("x", pl.String(), decimal_comma=True), [raw], pl.String()) == [expected]


@pytest.mark.parametrize(("unit", "expected"), [("s", 183.0), ("ms", 0.183), ("us", 0.000183), ("ns", 1.83e-7)])
@pytest.mark.parametrize(("dtype", "value"), [(pl.String(), "183"), (pl.Int32(), 183), (pl.Float32(), 183.0)], ids=str)
def test_seconds_in_units(unit: TimeUnit, expected: float, dtype: pl.DataType, value: object) -> None:
    assert evaluated(cells.seconds("x", dtype, unit=unit), [value], dtype) == [expected]


def test_seconds_from_durations_and_odd_floats() -> None:
    spans = [timedelta(milliseconds=1500), timedelta(seconds=-1), None]
    assert evaluated(cells.seconds("x", pl.Duration("ms")), spans, pl.Duration("ms")) == [1.5, BAD, None]
    floats = [float("nan"), float("inf"), -0.1, 0.5, None]
    assert evaluated(cells.seconds("x", pl.Float64()), floats, pl.Float64()) == [None, BAD, BAD, 0.5, None]
    assert evaluated(cells.seconds("x", pl.Boolean()), [True, None], pl.Boolean()) == [BAD, None]


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (pl.String(), ["True", "false", "1", "t", "F", "yes", "N", "0.0"], [True, False, True, True, False, True, False, False]),
        (pl.String(), [*MISSING, "maybe", "2"], [None] * len(MISSING) + [BAD, BAD]),
        (pl.Boolean(), [True, False, None], [True, False, None]),
        (pl.Int8(), [1, 0, 2, -1, None], [True, False, BAD, BAD, None]),
        (pl.Float64(), [1.0, 0.0, float("nan"), 0.5], [True, False, None, BAD]),
        (pl.List(pl.Boolean()), [[True]], [BAD]),
    ],
    ids=str,
)
def test_flag(dtype: pl.DataType, values: list[Any], expected: list[object]) -> None:
    assert evaluated(cells.flag("x", dtype), values, dtype) == expected


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (
            pl.String(),
            ["u1", " u1 ", "", "-", "NULL", "\\N", "NA", "12", "0"],
            ["u1", "u1", None, None, None, None, "NA", "12", "0"],
        ),
        (pl.Int64(), [7, -1, None], ["7", "-1", None]),
        (pl.UInt64(), [2**64 - 1], [str(2**64 - 1)]),
        (pl.Float64(), [12.0, 0.5, float("nan"), None], ["12", "0.5", None, None]),
        (pl.Categorical(), ["a", "", None], ["a", None, None]),
        (pl.Binary(), [b"a", b"", None], ["a", None, None]),
        (pl.Struct({"a": pl.Int64()}), [{"a": 1}, None], [BAD, None]),
        (pl.Boolean(), [True, None], ["true", None]),
    ],
    ids=str,
)
def test_text(dtype: pl.DataType, values: list[Any], expected: list[object]) -> None:
    assert evaluated(cells.text("x", dtype), values, dtype) == expected


def python_decodes(data: bytes) -> object:
    try:
        return data.decode() or None
    except UnicodeDecodeError:
        return BAD


EDGES = [
    b"\xc0\x80",
    b"\xc2\x7f",
    b"\xe0\x9f\xbf",
    b"\xed\xa0\x80",
    b"\xf0\x8f\xbf\xbf",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"caf\xe9",
]


@given(values=st.lists(st.binary(max_size=40) | st.text(max_size=3).map(str.encode) | st.sampled_from(EDGES)))
def test_bytes_are_text_or_unreadable_as_python_says(values: list[bytes]) -> None:
    every_pair = [bytes([first, second]) for first in range(256) for second in (0x41, 0x7F, 0x80, 0xBF, 0xC0)]
    values = [*values, *EDGES, *every_pair[:: 7 if values else 1]]
    assert evaluated(cells.text("x", pl.Binary()), values, pl.Binary()) == [python_decodes(value) for value in values]


def test_text_of_parquet_is_taken_as_it_stands() -> None:
    values = ["u1", " u1 ", "-", "NULL", ""]
    assert evaluated(cells.text("x", pl.String(), written=False), values, pl.String()) == ["u1", " u1 ", "-", "NULL", None]


def test_identity_keeps_integers() -> None:
    assert evaluated(cells.identity("x", pl.Int32()), [3, None], pl.Int32()) == [3, None]
    assert evaluated(cells.identity("x", pl.UInt64()), [3, 2**63], pl.UInt64()) == [3, BAD]
    assert evaluated(cells.identity("x", pl.String()), ["a", ""], pl.String()) == ["a", None]


def test_position_counts_from_zero() -> None:
    assert evaluated(cells.position("x", pl.String(), first=1), ["1", "3", "0", "-1", "x"], pl.String()) == [
        0,
        2,
        None,
        None,
        BAD,
    ]
    assert evaluated(cells.position("x", pl.Int64()), [0, 5, 2**40], pl.Int64()) == [0, 5, None]


HASHES: list[tuple[str | None, object]] = [
    ("[0, 1, 2]", [0, 1, 2]),
    ("[0,1]", [0, 1]),
    (" [ 7 ] ", [7]),
    ("[]", []),
    ("[ ]", []),
    (f"[{2**64 - 1}, {2**63}]", [2**64 - 1, 2**63]),
    ('["3", 4]', [3, 4]),
    ("", None),
    ("null", None),
    (None, None),
    ("[1", BAD),
    ("[1,,2]", BAD),
    ("[1, null]", BAD),
    ("[1.5]", BAD),
    ("[[1], [2]]", BAD),
    ('{"sys_prompt": [1]}', BAD),
    ("7", BAD),
]


@pytest.mark.parametrize(("raw", "expected"), HASHES, ids=repr)
def test_hashes_from_text(raw: str | None, expected: object) -> None:
    assert evaluated(cells.hashes("x", pl.String()), [raw], pl.String()) == [expected]


def test_hashes_of_names_tell_them_apart_and_only_them() -> None:
    rows = evaluated(cells.hashes("x", pl.String()), ['["a", "b"]', '["b", "a", "c"]', "[-5, 3]", '["-5"]'], pl.String())
    (a, b), (b_too, a_too, c), (minus, three), (minus_too,) = rows
    assert (a, b, minus, three) == (a_too, b_too, minus_too, 3)
    assert len({a, b, c, minus}) == 4


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (pl.List(pl.Int64()), [[1, 2], [], None, [1, None]], [[1, 2], [], None, BAD]),
        (pl.List(pl.UInt64()), [[2**64 - 1]], [[2**64 - 1]]),
        (pl.List(pl.UInt32()), [[5]], [[5]]),
        (pl.Array(pl.Int64(), 2), [[1, 2], None, [1, None]], [[1, 2], None, BAD]),
        (pl.Array(pl.String(), 1), [["7"]], [[7]]),
        (pl.List(pl.String()), [["3", "4"], []], [[3, 4], []]),
        (pl.List(pl.Null()), [[]], [[]]),
        (pl.List(pl.Float64()), [[1.0]], [BAD]),
        (pl.Int64(), [1, None], [BAD, None]),
    ],
    ids=str,
)
def test_hashes_from_lists(dtype: pl.DataType, values: list[Any], expected: list[object]) -> None:
    assert evaluated(cells.hashes("x", dtype), values, dtype) == expected


def test_a_negative_id_is_the_same_from_a_list_and_from_text() -> None:
    assert evaluated(cells.hashes("x", pl.List(pl.Int64())), [[-5]], pl.List(pl.Int64())) == evaluated(
        cells.hashes("x", pl.String()), ["[-5]"], pl.String()
    )


@given(st.lists(st.lists(st.integers(0, 3), max_size=5), min_size=1, max_size=8))
def test_chained_keys_are_equal_exactly_for_equal_prefixes(lists: list[list[int]]) -> None:
    dtype = pl.List(pl.UInt64())
    keys = evaluated(cells.chained(cells.hashes("x", dtype)), lists, dtype)
    by_key: dict[int, tuple[int, ...]] = {}
    for ids, chain in zip(lists, keys, strict=True):
        assert len(chain) == len(ids)
        for length, key in enumerate(chain, start=1):
            assert by_key.setdefault(key, tuple(ids[:length])) == tuple(ids[:length])
    prefixes = {tuple(ids[:length]) for ids in lists for length in range(1, len(ids) + 1)}
    assert len(by_key) == len(prefixes)


def both(function: Callable[[Cell, Cell], Cell], dtype: pl.DataType, rows: list[tuple[Any, Any]]) -> list[object]:
    """A cell made of two others, on rows of their raw values."""
    one, two = cells.count("a", dtype), cells.count("b", dtype)
    cell = function(one, two)
    assert cell.bad is not None
    frame = pl.DataFrame(rows, schema={"a": dtype, "b": dtype}, orient="row")
    return [BAD if bad else value for value, bad in frame.select(value=cell.value, bad=cell.bad).rows()]


def test_add_where_both_are_known() -> None:
    rows = [(5, 3), (5, None), (None, 3), (0, 0), (2**63 - 1, 1), (2**63 - 2, 1), (-7, 1)]
    assert both(cells.add, pl.Int64(), rows) == [8, 5, None, 0, BAD, 2**63 - 1, BAD]
