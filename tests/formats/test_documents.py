"""JSON documents: unpacked as a whole parse would, in pieces of any size, with numbers untouched."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.errors import InputError
from llmtrace.formats import documents
from llmtrace.formats.documents import is_document, objects

if TYPE_CHECKING:
    from collections.abc import Iterator

SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=8
)
OBJECTS = st.dictionaries(st.text().filter(lambda key: key not in documents.WRAPPERS), VALUES, max_size=4)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_CHUNK", 3)


def unpacked(text: str) -> list[Any]:
    lines = list(objects(io.StringIO(text), "t.json"))
    assert all("\n" not in line and "\r" not in line for line in lines)
    return [json.loads(line) for line in lines]


@given(rows=st.lists(OBJECTS, max_size=4), indent=st.sampled_from([None, 0, 2]), ascii_only=st.booleans())
def test_every_form_of_document_holds_the_same_rows(rows: list[Any], indent: int | None, ascii_only: bool) -> None:  # noqa: FBT001
    def text(value: object) -> str:
        return json.dumps(value, indent=indent, ensure_ascii=ascii_only)

    assert unpacked(text(rows)) == rows
    assert unpacked(text({"object": "list", "data": rows, "next": [1, {"a": 2}]})) == rows
    assert unpacked("\n".join(text(row) for row in rows)) == rows


def test_numbers_keep_their_text() -> None:
    text = '[{"id": 18446744073709551615, "t": 1.50,\n "big": 12345678901234567890123}]'
    assert list(objects(io.StringIO(text), "t.json")) == [
        '{"id": 18446744073709551615, "t": 1.50,  "big": 12345678901234567890123}'
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "t.json is not JSON to its end"),
        ('[{"a": 1}', "',' is missing"),
        ('[{"a": 1}, {"a"', "t.json is not JSON to its end"),
        ('[{"a": 1} {"a": 2}]', "',' is missing"),
        ('{"a" 1}', "':' is missing"),
        ("[1]", "its array holds 1, which is no object"),
        ('{"data": ["x"]}', 'its array holds "x", which is no object'),
        ("nonsense", "'{' is missing"),
    ],
)
def test_what_is_no_document(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("{", r"\{")):
        unpacked(text)


def forms() -> Iterator[tuple[list[str], bool, bool]]:
    """First lines, whether they are all, and whether it is one document."""
    yield ['{"t": 1}'], True, False
    yield ['{"t": 1}', "", '{"t": 2}'], True, False
    yield ['{"t": 1}', "{bad"], True, False
    yield ["{bad", '{"t": 1}'], True, False
    yield ["[", '{"t": 1}', "]"], True, True
    yield ['[{"t": 1}]'], True, True
    yield ["{", '"t": 1', "}"], True, True
    yield ['{"data": ['], False, True
    yield ['{"data": [{"t": 1}]}'], True, True
    yield ['{"data": [{"t": 1}]}', '{"data": [{"t": 2}]}'], True, False
    yield ['{"data": 5}'], True, False
    yield ['{"data": [{"t": 1}, {"t": 2'], False, True


@pytest.mark.parametrize(("lines", "whole", "expected"), list(forms()))
def test_documents_are_told_from_lines(lines: list[str], whole: bool, expected: bool) -> None:  # noqa: FBT001
    assert is_document(lines, whole=whole) is expected
