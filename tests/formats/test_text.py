"""Text as people have it: line ends, encodings, separators, quotes, compression, broken rows."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import tarfile
import zipfile
from datetime import datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.errors import InputError
from llmtrace.formats.source import find

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., Path]
    ReadTrace = Callable[..., Any]

HEADER = "timestamp,input_tokens,output_tokens,model"
ROWS = ["2025-04-11 12:00:00,5,1,m", "2025-04-11 12:00:01,6,2,n"]
EXPECTED = [(datetime(2025, 4, 11, 12), 5, 1, "m"), (datetime(2025, 4, 11, 12, 0, 1), 6, 2, "n")]
CSV = "\n".join([HEADER, *ROWS]) + "\n"
JSONL = "".join(
    json.dumps({"timestamp": str(time), "input_tokens": into, "output_tokens": out, "model": model}) + "\n"
    for time, into, out, model in EXPECTED
)


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue().to_pybytes())


def tarred(data: bytes) -> bytes:
    sink, entry = io.BytesIO(), tarfile.TarInfo("trace.csv")
    entry.size = len(data)
    with tarfile.open(fileobj=sink, mode="w") as archive:
        archive.addfile(entry, io.BytesIO(data))
    return sink.getvalue()


def zipped(**files: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return sink.getvalue()


SHAPES: dict[str, bytes] = {
    "plain": CSV.encode(),
    "crlf without a last line end": CSV.replace("\n", "\r\n").rstrip().encode(),
    "carriage returns alone": CSV.replace("\n", "\r").encode(),
    "utf-8 mark": CSV.encode("utf-8-sig"),
    "utf-16": CSV.encode("utf-16"),
    "utf-16 big": b"\xfe\xff" + CSV.encode("utf-16-be"),
    "utf-32": CSV.encode("utf-32"),
    "blank lines": ("\n\n" + CSV.replace("\n", "\n\n") + "\n  \n\n").encode(),
    "crlf blank lines": (CSV.replace("\n", "\r\n\r\n") + "\r\n").encode(),
    "rows of separators, as spreadsheets leave them": (CSV + ",,,\n,,,\n").encode(),
    "tabs": CSV.replace(",", "\t").encode(),
    "semicolons": CSV.replace(",", ";").encode(),
    "pipes": CSV.replace(",", "|").encode(),
    "separator hint": ("sep=;\n" + CSV.replace(",", ";")).encode(),
    "quoted": ("\n".join(",".join(f'"{field}"' for field in line.split(",")) for line in [HEADER, *ROWS])).encode(),
    "spaces in the header": CSV.replace(HEADER, " timestamp , input_tokens,output_tokens , model").encode(),
    "gzip": gzip.compress(CSV.encode(), mtime=0),
    "gzip in two members": gzip.compress(CSV[:50].encode()) + gzip.compress(CSV[50:].encode()),
    "gzip twice": gzip.compress(gzip.compress(CSV.encode(), mtime=0), mtime=0),
    "gzip of utf-16": gzip.compress(CSV.encode("utf-16"), mtime=0),
    "zstd": zstd(CSV.encode()),
    "zip": zipped(trace=CSV.encode()),
    "zip with junk": zipped(
        **{"__MACOSX/._trace.csv": b"\0", "._trace.csv": b"\0", "trace.csv": CSV.encode(), "README.md": b"hi"}
    ),
    "jsonl": JSONL.encode(),
    "jsonl, crlf, blank lines": ("\n" + JSONL.replace("\n", "\r\n\r\n") + "  \n").encode(),
    "jsonl without a last line end": JSONL.rstrip().encode(),
    "jsonl with utf-8 mark": JSONL.encode("utf-8-sig"),
    "jsonl in utf-16": JSONL.encode("utf-16"),
    "jsonl gzip": gzip.compress(JSONL.encode()),
    "jsonl zstd": zstd(JSONL.encode()),
    "json array": json.dumps([json.loads(line) for line in JSONL.splitlines()]).encode(),
    "json array over lines": json.dumps([json.loads(line) for line in JSONL.splitlines()], indent=2).encode(),
    "json array gzip": gzip.compress(json.dumps([json.loads(line) for line in JSONL.splitlines()]).encode()),
    "json wrapper": json.dumps(
        {"object": "list", "data": [json.loads(line) for line in JSONL.splitlines()], "more": False}
    ).encode(),
    "json objects over lines": "\n".join(json.dumps(json.loads(line), indent=1) for line in JSONL.splitlines()).encode(),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["trace.csv", "trace.data"])
def test_content_decides_whatever_the_name(write: Write, read: ReadTrace, shape: str, name: str) -> None:
    trace = read(write(SHAPES[shape], name))
    assert trace.frame.rows() == EXPECTED
    assert trace.bad == trace.counted == {}


def test_parquet_whatever_the_name(write: Write, read: ReadTrace) -> None:
    sink = io.BytesIO()
    pl.DataFrame(EXPECTED, schema=HEADER.split(","), orient="row").write_parquet(sink)
    for data in (sink.getvalue(), gzip.compress(sink.getvalue()), zipped(part=sink.getvalue())):
        assert read(write(data, "trace.csv")).frame.rows() == EXPECTED


def test_quotes_hide_separators_line_ends_and_json(write: Write, read: ReadTrace) -> None:
    content = 'note,timestamp,input_tokens,output_tokens,user\n"a,b\n\n""c""",2025-04-11,5,1,"{""id"": ""x,y""}"\n'
    trace = read(write(content))
    assert trace.frame.rows() == [(datetime(2025, 4, 11), 5, 1, '{"id": "x,y"}')]


def test_a_header_over_two_lines(write: Write, read: ReadTrace) -> None:
    trace = read(write('timestamp,"input\ntokens",output_tokens\n2025-04-11,5,1\n'))
    assert trace.frame.rows() == [(datetime(2025, 4, 11), 5, 1)]


def test_repeated_and_empty_names_are_told_apart(write: Write) -> None:
    (source,) = find([str(write("a,,a,b,a_2,\n1,2,3,4,5,6\n"))])
    assert source.columns == ("a", "column_2", "a_2", "b", "a_2_2", "column_6")
    assert source.scan().collect().row(0)[:6] == ("1", "2", "3", "4", "5", "6")
    assert source.notes == (
        "Of columns with one name the first is read; the others are called 'a_2', 'a_2_2', if --map should name them.",
    )
    (other,) = find([str(write(f"a,b,,{'b,' * 9}c\n" + "1," * 12 + "1\n", "other.csv"))])
    assert "are called 'b_2', 'b_3', 'b_4', 'b_5', 'b_6' and 4 more, if" in other.notes[0]
    (single,) = find([str(write("a,b,,\n1,2,3,4\n", "single.csv"))])
    assert single.notes == ()


def test_a_repeated_column_is_said_and_can_be_mapped(write: Write, read: ReadTrace) -> None:
    path = write("timestamp,input_tokens,output_tokens,model,model\n2025-04-11,5,1,m,n\n")
    assert "'model_2'" in read(path).reading.notes[0]
    assert read(path).column("model") == ["m"]
    assert read(path, mapping={"model": "model_2"}).column("model") == ["n"]


def test_thousands_of_columns(write: Write, read: ReadTrace) -> None:
    """They cost no more than their text: planned by the square of their number, these would take minutes."""
    more = "".join(f",c{number}" for number in range(5_000))
    rows = "".join(f"{row}{',0' * 5_000}\n" for row in ROWS) + "," * 5_003 + "\n"
    assert read(write(f"{HEADER}{more}\n{rows}")).frame.rows() == EXPECTED


def test_rows_of_uneven_length_are_kept_and_counted(write: Write, read: ReadTrace) -> None:
    rows = ["2025-04-11,5", "2025-04-11,6,2,m,surplus,more", "2025-04-11,7,3,m"]
    trace = read(write("\n".join([HEADER, *rows])))
    assert trace.frame.drop("timestamp").rows() == [(5, None, None), (6, 2, "m"), (7, 3, "m")]
    assert trace.counted == {"{count} {row has|rows have} more fields than the header; the surplus was not read.": 1}


def test_a_surplus_in_the_first_row_is_not_read_either(write: Write, read: ReadTrace) -> None:
    trace = read(write(f"{HEADER}\n{ROWS[0]},surplus,more,and,more\n{ROWS[1]}\n"))
    assert trace.frame.rows() == EXPECTED
    assert sum(trace.counted.values()) == 1
    broken = read(write(f'{{"a\x1eb\x1ec\x1ed\n{JSONL}', "t.jsonl"))
    assert [row for row in broken.frame.rows() if row[0]] == EXPECTED


def test_bytes_that_are_no_utf8_spoil_their_cell_only(write: Write, read: ReadTrace) -> None:
    path = write(CSV.encode() + b"2025-04-11 12:00:02,\xff,3,caf\xe9\n")
    trace = read(path)
    assert trace.frame.row(2) == (datetime(2025, 4, 11, 12, 0, 2), None, 3, None)
    assert trace.bad == {"input_tokens": 1, "model": 1}
    broken = JSONL.encode() + b'{"timestamp": "2025-04-11", "input_tokens": 1, "output_tokens": 1, "model": "\xff"}\n'
    trace = read(write(broken, "t.jsonl"))
    assert trace.column("model") == ["m", "n", None]
    assert trace.bad == {"model": 1}


@pytest.mark.parametrize("rows", [0, 60_000])
def test_zeros_spoil_their_cells_only_wherever_they_are(write: Write, read: ReadTrace, rows: int) -> None:
    """Within the first megabyte and behind it."""
    path = write(CSV.encode() + b"2025-04-11 12:00:02,7,3,m\n" * rows + b"\0" * 40 + b"\n2025-04-11 00:00:00,5\0,1,n\0\n")
    trace = read(path)
    assert trace.frame.tail(2).rows() == [(None, None, None, None), (datetime(2025, 4, 11), None, 1, None)]
    assert trace.frame.height == rows + 4
    assert trace.bad == {"timestamp": 1, "input_tokens": 1, "model": 1}


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("broken", ["{bad", '{"timestamp": "2025-04-11", "input_tok', "[1, 2]", "null", "plain words", '"text"'])
def test_a_broken_line_is_a_row_of_nulls(write: Write, read: ReadTrace, place: int, broken: str) -> None:
    lines = JSONL.splitlines()
    lines.insert(place, broken)
    path = write("\n".join(lines), "t.jsonl")
    if place == 0 and broken.startswith("["):
        with pytest.raises(InputError, match="which is no object"):
            find([str(path)])
        return
    trace = read(path)
    assert trace.frame.row(place) == (None, None, None, None)
    assert [row for row in trace.frame.rows() if row[0]] == EXPECTED


def test_fields_of_later_lines_and_odd_keys(write: Write, read: ReadTrace) -> None:
    rows = [
        {"timestamp": "2025-04-11", "Prompt Tokens": 1, "a.b": "x", "a": {"b": "y", "c d": 5}},
        {"output_tokens": 2, "ü": "ö"},
    ]
    mapping = {"model": "a.b", "user": "ü", "cached_tokens": "a.c d"}
    trace = read(write("".join(json.dumps(row) + "\n" for row in rows), "t.jsonl"), mapping=mapping)
    assert trace.column("input_tokens") == [1, None]
    assert trace.column("output_tokens") == [None, 2]
    assert (trace.column("model"), trace.column("user"), trace.column("cached_tokens")) == (["x", None], [None, "ö"], [5, None])


def test_numbers_that_are_none_spoil_their_cell_only(write: Write, read: ReadTrace) -> None:
    rows = [
        {"timestamp": "2025-04-11", "input_tokens": float("nan"), "output_tokens": 1, "ttft": 1.5},
        {"timestamp": "2025-04-12", "input_tokens": 2, "output_tokens": float("inf"), "ttft": float("-inf")},
        {"timestamp": "2025-04-13", "input_tokens": 3, "output_tokens": 3, "ttft": float("nan"), "model": 'a "NaN: Infinity" \\'},
    ]
    for text in ("".join(json.dumps(row) + "\n" for row in rows), json.dumps(rows)):
        trace = read(write(text, "t.jsonl"))
        assert trace.column("timestamp") == [datetime(2025, 4, day) for day in (11, 12, 13)]
        assert (trace.column("input_tokens"), trace.column("output_tokens")) == ([None, 2, 3], [1, None, 3])
        assert (trace.column("ttft_s"), trace.column("model")) == ([1.5, None, None], [None, None, 'a "NaN: Infinity" \\'])
        assert trace.bad == {"output_tokens": 1, "ttft_s": 1}


def test_a_single_row_and_none(write: Write, read: ReadTrace) -> None:
    assert read(write(f"{HEADER}\n{ROWS[0]}")).frame.rows() == EXPECTED[:1]
    assert read(write(HEADER)).frame.rows() == []
    assert read(write(HEADER + "\r\n")).frame.rows() == []


@pytest.mark.parametrize(
    "first", ["0.0,0.12,1.5,Gamma,0.4,2", "2023-11-16 18:17:03.9799600,4808,10", "1700000000;5;1", "2025-04-11T12:00:00Z,a,b"]
)
def test_a_file_without_a_header_is_refused(write: Write, first: str) -> None:
    path = write(f"{first}\n{first}\n")
    with pytest.raises(InputError, match="has no header") as caught:
        find([str(path)])
    assert str(path) in caught.value.message
    assert "column names" in caught.value.hint


DAMAGED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "is empty"),
    "spaces only": (b" \n\n \t\n", "is empty"),
    "a mark only": (b"\xef\xbb\xbf\n", "is empty"),
    "another mark only": (b"\xff\xfe", "is empty"),
    "empty gzip": (gzip.compress(b""), "is empty"),
    "empty array": (b"[]", "is empty"),
    "gzip cut off": (gzip.compress(CSV.encode() * 50)[:-20], "is damaged"),
    "gzip with noise": (gzip.compress(CSV.encode(), mtime=0)[:30] + b"noise" * 20, "is damaged"),
    "zstd cut off": (zstd(CSV.encode() * 500)[:-8], "is damaged"),
    "zip cut off": (zipped(trace=CSV.encode())[:-30], "is damaged"),
    "zip with a broken member": (zipped(trace=CSV.encode() * 50).replace(b"\n", b"\r", 1)[:60] + b"\xff" * 200, "is damaged"),
    "zip of nothing": (zipped(), "archive without files"),
    "spreadsheet": (zipped(**{"[Content_Types].xml": b"<x/>", "xl/workbook.xml": b"<x/>"}), "neither Parquet nor text"),
    "zip of junk": (zipped(**{"__MACOSX/._a": b"x"}), "archive without files"),
    "parquet cut off": (b"PAR1" + b"\0" * 100, "is damaged"),
    "parquet magic alone": (b"PAR1", "is damaged"),
    "picture": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "neither Parquet nor text"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n", "is a Git LFS pointer"),
    "web page": (b"\xef\xbb\xbf\n<!DOCTYPE html>\n<html><head><title>404, not found</title></head></html>", "is a web page"),
    "web page, packed": (gzip.compress(b"<HTML lang=en>,a,b"), "is a web page"),
    "xml": (b'<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>', "is XML"),
    "utf-16 without a mark": (CSV.encode("utf-16-le"), "neither Parquet nor text"),
    "tar": (tarred(CSV.encode() * 100), "is a tar archive"),
    "tar, packed": (gzip.compress(tarred(CSV.encode() * 100)), "is a tar archive"),
    "bzip2": (bz2.compress(CSV.encode() * 100), "neither Parquet nor text"),
    "lines without an object": (b"{bad\n{worse\n", "holds no JSON objects"),
    "header without an end": (b'"' + b"x" * 200_000, "has no header|is damaged"),
    "array cut off": (JSONL.join("[]")[:60].encode(), "is not JSON to its end"),
    "array too deep": (b"[" * 100_000, "nested too deep"),
    "object too deep": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n", "nested too deep"),
    "lines too deep": ((b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n") * 2, "nested too deep|holds no JSON objects"),
    "array of numbers": (b"[1, 2, 3]", "which is no object"),
    "array with a hole": (b'[{"a": 1} {"a": 2}]', "',' is missing"),
    "object cut off": (b'{"data": [{"a": 1}', "is not JSON to its end"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_files_are_refused_by_name(write: Write, case: str) -> None:
    data, message = DAMAGED[case]
    path = write(data, "odd.csv")
    with pytest.raises(InputError, match=message) as caught:
        find([str(path)])
    assert str(path) in caught.value.message
    assert caught.value.hint


def test_a_library_is_quoted_without_its_advice(write: Write) -> None:
    (source,) = find([str(write(f'{HEADER}\n2025-04-11 12:00:00,5,1,"m" x\n'))])
    with pytest.raises(InputError, match="is damaged: could not parse") as caught:
        source.raw()
    assert "You might" not in caught.value.message


def test_damage_behind_the_first_rows_is_told_by_the_source(write: Write) -> None:
    lines = "".join(f"2025-04-11 12:00:00,{number},{number * 7919 % 1000},model-{number}\n" for number in range(300_000))
    path = write(gzip.compress(f"{HEADER}\n{lines}".encode())[:-10_000], "t.csv.gz")
    (source,) = find([str(path)])
    with pytest.raises((pl.exceptions.PolarsError, OSError)) as caught:
        source.scan().collect()
    error = source.damaged(caught.value)
    assert isinstance(error, InputError)
    assert str(path) in error.message


def test_rows_of_text_are_estimated(write: Write) -> None:
    for compress, error in ((bytes, 0.05), (gzip.compress, 0.35), (zstd, 0.35)):
        lines = "".join(f"2025-04-11 12:00:00,{number},{number * 7919 % 1000},m\n" for number in range(100_000))
        (source,) = find([str(write(compress(f"{HEADER}\n{lines}".encode()), "t.csv"))])
        assert source.rows() is None
        assert source.estimated_rows() == pytest.approx(100_000, rel=error)
    (source,) = find([str(write(JSONL * 50_000, "t.jsonl"))])
    assert source.estimated_rows() == pytest.approx(100_000, rel=0.02)


CELLS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6) | st.sampled_from(
    ['"', '""', "a,b", "a;b", "a\tb", "a\nb", "a\r\nb", "\n\n", " x ", "{}", "'", "\\", "#", "-"]
)


@given(
    rows=st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=6),
    separator=st.sampled_from(",;\t|"),
    line_end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_delimited_text_is_split_as_the_standard_library_wrote_it(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], separator: str, line_end: str, quoting: int
) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator=line_end, quoting=quoting)  # type: ignore[arg-type]
        writer.writerows([["first", "second", "third"], *rows])
    (source,) = find([str(path)])
    read = [tuple(cell or "" for cell in row) for row in source.scan().select("first", "second", "third").collect().rows()]
    # Whether a row of quoted nothings is a row is left open.
    assert [row for row in read if any(row)] == [tuple(row) for row in rows if row[0].strip() or any(row[1:])]


@given(rows=st.lists(st.dictionaries(st.sampled_from(["a", "b", "c d", "e.f", "ü"]), CELLS, min_size=1), min_size=1, max_size=6))
def test_lines_hold_what_the_standard_library_wrote(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, str]]) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (source,) = find([str(path)])
    read = source.scan().collect().rows(named=True)
    assert [{key: value for key, value in row.items() if value is not None} for row in read] == rows
