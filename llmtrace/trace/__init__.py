"""Trace: sources and filters, as lazy canonical frames cut into disjoint time intervals.

`open_trace` looks at the sources without reading them: footers of Parquet files, the first rows of text. Text has no
statistics, so a trace with text in it must be surveyed (`llmtrace.engine.survey`) before it can be cut.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

from llmtrace.errors import InputError, MissingColumnError
from llmtrace.formats import recognise
from llmtrace.formats.layout import ReadOptions
from llmtrace.formats.source import find
from llmtrace.schema import COLUMNS
from llmtrace.trace.filters import Filters
from llmtrace.trace.part import Opened, Part, Piece
from llmtrace.trace.parts import EPOCH, MICROSECOND, PART_ROWS, Interval, cut
from llmtrace.trace.slices import sliced

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from llmtrace.formats.layout import Clock
    from llmtrace.formats.source import Source
    from llmtrace.trace.parts import Slice

__all__ = ["Filters", "Interval", "Part", "Trace", "open_trace"]

MAX_TEXT_ROWS = 30_000_000
"""Rows of one text file that are held in memory at once; more need `llmtrace convert`, which streams."""


@dataclass(frozen=True)
class Trace:
    """A request trace: what to read, and which requests count.

    Attributes:
        names: the sources as the user gave them.
        opened: every file with its reading.
        slices: runs of rows with their first and last arrival, as far as known.
        filters: which requests count.
        strict: whether a cell that cannot be read is an error.
    """

    names: tuple[str, ...]
    opened: tuple[Opened, ...]
    slices: tuple[Slice, ...]
    filters: Filters
    strict: bool

    @property
    def clock(self) -> Clock:
        """Whether its times are UTC or elapsed."""
        return self.opened[0].reading.clock

    @property
    def columns(self) -> tuple[str, ...]:
        """Canonical columns that at least one source has."""
        present = {name for opened in self.opened for name in opened.reading.cells}
        return tuple(name for name in COLUMNS if name in present)

    @property
    def layouts(self) -> tuple[str, ...]:
        """The layouts of its sources."""
        return tuple(dict.fromkeys(opened.reading.layout for opened in self.opened))

    @property
    def block_size(self) -> int | None:
        """Tokens per prefix block, where the trace has block hashes."""
        return next((opened.reading.block_size for opened in self.opened if opened.reading.block_size), None)

    @property
    def synthetic(self) -> bool:
        """Whether a source says that it was generated."""
        return any(opened.reading.synthetic for opened in self.opened)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of numbers from this trace must know about how it was read."""
        return tuple(dict.fromkeys(note for opened in self.opened for note in opened.reading.notes))

    @property
    def unsurveyed(self) -> tuple[Slice, ...]:
        """Slices whose rows, first and last arrival must be looked up by reading their times."""
        return tuple(piece for piece in self.slices if not piece.surveyed)

    @cached_property
    def span(self) -> Interval | None:
        """First and last arrival over all rows, filters aside ([first, last], closed); None without a readable time."""
        dated = [(piece.first, piece.last) for piece in self.slices if piece.first is not None and piece.last is not None]
        return Interval(min(first for first, _ in dated), max(last for _, last in dated)) if dated else None

    def surveyed(self, slices: Sequence[Slice]) -> Trace:
        """The same trace with the unsurveyed slices replaced by these."""
        return replace(self, slices=(*(piece for piece in self.slices if piece.surveyed), *slices))

    def require(self, columns: Collection[str], wanted_by: str) -> None:
        """Raise unless all these canonical columns are there.

        Raises:
            MissingColumnError: naming those that are missing and those there are.
        """
        missing = [name for name in COLUMNS if name in columns and name not in self.columns]
        if missing:
            raise MissingColumnError.among(missing, self.columns, wanted_by)

    def window(self) -> Interval | None:
        """The half-open interval that the filters leave of the span; None if nothing is left."""
        if self.span is None:
            return None
        since, until = self.filters.window(self.span.start, self.clock)
        start = max(since, self.span.start) if since else self.span.start
        after_last = self.span.end + MICROSECOND
        end = min(until, after_last) if until else after_last
        return Interval(start, end) if start < end else None

    def parts(self, rows: int = PART_ROWS) -> list[Part]:
        """Disjoint time intervals of about `rows` rows, in order; none if the window is empty.

        Raises:
            InputError: if a text file is too long to be held in memory.
        """
        window = self.window()
        if window is None:
            return []
        intervals = cut(self.slices, window, rows)
        seen: set[int] = set()
        parts = [self._part(interval, seen) for interval in intervals]
        for part in parts:
            _check_text(part)
        return parts

    def empty_part(self) -> Part:
        """A part without requests, for a window in which there are none."""
        moment = self.span.start if self.span else EPOCH
        return Part((), Interval(moment, moment), None, frozenset())

    def _part(self, interval: Interval, seen: set[int]) -> Part:
        inside = [
            (index, piece) for index, piece in enumerate(self.slices) if piece.overlaps(interval) or self._undated(index, seen)
        ]
        by_time = sorted(inside, key=lambda entry: entry[1].first or interval.start)
        # Where they do not touch, rows are mostly in order so; where they do, ties are broken by the order of files and rows.
        inside = by_time if _apart([piece for _, piece in by_time]) else inside
        pieces = tuple(
            Piece(self.opened[piece.source], piece, piece.within(interval), index not in seen) for index, piece in inside
        )
        seen.update(index for index, _ in inside)
        return Part(pieces, interval, self.filters.predicate(), self.filters.columns())

    def _undated(self, index: int, seen: set[int]) -> bool:
        return self.slices[index].first is None and index not in seen

    def provenance(self) -> dict[str, Any]:
        """Where numbers from this trace come from, JSON-ready."""
        return {
            "sources": list(self.names),
            "files": len(self.opened),
            "layout": ", ".join(self.layouts),
            "clock": self.clock,
            "synthetic": self.synthetic,
            "filters": self.filters.described(),
        }


def open_trace(
    sources: Sequence[str] | str,
    *,
    layout: str | None = None,
    options: ReadOptions | None = None,
    filters: Filters | None = None,
    strict: bool = False,
) -> Trace:
    """Open one or several sources as one trace; nothing but footers and first rows is read.

    Args:
        sources: files, folders, globs, `s3://` addresses, or `-` for standard input.
        layout: the layout's name where recognition by content is not wanted.
        options: what else the user says about the sources.
        filters: which requests count.
        strict: make a cell that cannot be read an error.

    Raises:
        InputError: if a source is missing, empty or damaged, or the sources are on different clocks.
        MissingColumnError: if a column that the layout, the mapping or a filter names is not there.
        UsageError: if the layout or a filter makes no sense.
    """
    names = (sources,) if isinstance(sources, str) else tuple(sources)
    # Most of the time goes into waiting for disks and stores, and into decoding first rows.
    with ThreadPoolExecutor(thread_name_prefix="llmtrace-open") as pool:
        found = list(pool.map(partial(_open, layout=layout, options=options or ReadOptions()), count(), find(names)))
    slices = tuple(piece for _, own in found for piece in own)
    trace = Trace(names, _on_one_clock([entry for entry, _ in found], slices), slices, filters or Filters(), strict)
    trace.filters.check(trace.columns)
    return trace


def too_long(name: str, rows: int) -> InputError:
    """The error for a text file of so many rows."""
    return InputError(
        f"{name} has about {rows:,} rows of text, more than the {MAX_TEXT_ROWS:,} that are read at once",
        f"Turn it into Parquet first, which is streamed: llmtrace convert {name} DEST",
    )


def _open(index: int, source: Source, layout: str | None, options: ReadOptions) -> tuple[Opened, list[Slice]]:
    raw = source.raw()
    is_empty = raw.kind != "parquet" and raw.first_rows(list(raw.schema)).is_empty()
    reading = recognise(raw, layout).read(raw, options)
    return sliced(index, Opened(source, reading, raw.schema, is_empty, source.rows()))


def _apart(slices: Sequence[Slice]) -> bool:
    """Whether slices, in order of their first arrivals, have no time in common."""
    return all(a.last is None or b.first is None or a.last < b.first for a, b in pairwise(slices))


def _check_text(part: Part) -> None:
    text = [piece for piece in part.pieces if not piece.slice.divisible]
    rows = sum(piece.slice.rows or 0 for piece in text)
    if rows > MAX_TEXT_ROWS:
        raise too_long(text[0].opened.source.name, rows)


def _on_one_clock(opened: Sequence[Opened], slices: Sequence[Slice]) -> tuple[Opened, ...]:
    """The sources, those without a time on the clock of the others.

    Raises:
        InputError: if there are two clocks.
    """
    dated = {piece.source for piece in slices if piece.first is not None or not piece.surveyed}
    by_clock = {entry.reading.clock: entry.source.name for index, entry in enumerate(opened) if index in dated}
    if len(by_clock) > 1:
        raise InputError(
            f"{by_clock['relative']} is on a relative clock, {by_clock['utc']} on an absolute one",
            "Analyse them apart: their times cannot be put on one axis.",
        )
    clock = next(iter(by_clock), opened[0].reading.clock)
    return tuple(replace(entry, reading=replace(entry.reading, clock=clock)) for entry in opened)
