"""JSON documents: an array of objects, an object that wraps one, or one printed over several lines; unpacked to JSON lines.

The text is read once, in pieces, and never held as a whole: memory is bounded by the largest object in it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TextIO

from llmtrace.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["is_document", "objects"]

WRAPPERS = frozenset({"data", "items", "records", "rows"})
"""Keys under which exports put their list of requests."""
_CHUNK = 1 << 16
_AFTER_NUMBER = frozenset(",}] \t\r\n")
_DECODER = json.JSONDecoder()


def is_document(lines: Sequence[str], *, whole: bool) -> bool:
    """Whether JSON text, of which these are the first lines, is one document rather than JSON lines.

    >>> is_document(['{"t": 1}', '{"t": 2}'], whole=True), is_document(["[", '{"t": 1},'], whole=False)
    (False, True)
    """
    first, *others = [line.strip() for line in lines if line.strip()]
    if first.startswith("[") or first.endswith(("{", "[", ",", ":")):
        return True
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return not others
    alone = whole and not others
    return alone and any(isinstance(value.get(key), list) for key in WRAPPERS)


def objects(stream: TextIO, name: str) -> Iterator[str]:
    """Every object of a document as one line of JSON, its text unchanged but for line breaks.

    Raises:
        InputError: if the text ends in the middle, is not JSON, or its array holds other things than objects.
    """
    text = _Text(stream, name)
    while text.peek():
        if text.peek() == "[":
            yield from _elements(text)
        else:
            yield from _wrapped(text)


class _Text:
    """A cursor over a stream of JSON."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream, self._name = stream, name
        self._buffer, self._at = "", 0

    def peek(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            while self._at < len(self._buffer) and self._buffer[self._at].isspace():
                self._at += 1
            if self._at < len(self._buffer) or not self._more():
                return self._buffer[self._at : self._at + 1]

    def take(self, expected: str) -> None:
        """Step over this character.

        Raises:
            InputError: if the next one is another.
        """
        if self.peek() != expected:
            raise self.wrong(f"{expected!r} is missing")
        self._at += 1

    def value(self) -> tuple[Any, str]:
        """The next value and its text.

        Raises:
            InputError: if there is none.
        """
        self.peek()
        while True:
            try:
                found, end = _DECODER.raw_decode(self._buffer, self._at)
            except ValueError as error:
                if self._more():
                    continue
                raise self.wrong(str(error)) from None
            except RecursionError:
                raise self.wrong("its values are nested too deep") from None
            # A number may go on behind what has been read: `1` as `1.5`, `1.` as `1.0`.
            if self._buffer[end - 1] in '}]"' or self._buffer[end : end + 1] in _AFTER_NUMBER or not self._more():
                source = self._buffer[self._at : end]
                self._at = end
                return found, source

    def wrong(self, what: str) -> InputError:
        """The error for text that is no JSON."""
        return InputError(
            f"{self._name} is not JSON to its end: {what}", "Export it again, best as JSON lines (one object a line)."
        )

    def _more(self) -> bool:
        """Read on, at least doubling what is left, so that a long value costs a linear number of steps."""
        left = self._buffer[self._at :]
        new = self._stream.read(max(_CHUNK, len(left)))
        self._buffer, self._at = left + new, 0
        return bool(new)


def _elements(text: _Text) -> Iterator[str]:
    text.take("[")
    while text.peek() != "]":
        value, source = text.value()
        if not isinstance(value, dict):
            raise text.wrong(f"its array holds {source[:40]}, which is no object")
        yield source.replace("\r", " ").replace("\n", " ")
        if text.peek() != "]":
            text.take(",")
    text.take("]")


def _wrapped(text: _Text) -> Iterator[str]:
    """The objects under a wrapping key; an object that has no such key is itself the one."""
    found, fields = False, {}
    text.take("{")
    while text.peek() != "}":
        key = text.value()[0]
        text.take(":")
        if key in WRAPPERS and text.peek() == "[":
            found = True
            yield from _elements(text)
        else:
            fields[key] = text.value()[0]
        if text.peek() != "}":
            text.take(",")
    text.take("}")
    if not found:
        yield json.dumps(fields, ensure_ascii=False)
