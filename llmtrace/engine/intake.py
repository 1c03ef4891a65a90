"""Intake: what was read, what could not be read, and what the filters let through; told with every result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from llmtrace import __version__
from llmtrace.errors import InputError
from llmtrace.wording import counted, either, worded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from llmtrace.result import Result
    from llmtrace.trace import Trace

__all__ = ["Intake", "intake_of"]

_COUNT = "{count}"


@dataclass(frozen=True)
class Intake:
    """Counts over what was read.

    Attributes:
        counts: `rows`, `no_timestamp`, `bad_rows`, `cached_above_input` and `bad_<column>`, before the filters; and the rows that
            a layout counts besides, under a sentence with `{count}` in it.
        kept: requests that the filters let through.
        first: earliest arrival among them.
        last: latest arrival among them.
        shortened: how many of them have a name that results do not show whole, under a sentence with `{count}` in it.
    """

    counts: Mapping[str, int]
    kept: int
    first: datetime | None
    last: datetime | None
    shortened: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def combined(cls, intakes: Sequence[Intake]) -> Intake:
        """The intake of several parts, in any order."""
        counts = _added([intake.counts for intake in intakes])
        firsts = [intake.first for intake in intakes if intake.first is not None]
        lasts = [intake.last for intake in intakes if intake.last is not None]
        kept, shortened = sum(intake.kept for intake in intakes), _added([intake.shortened for intake in intakes])
        return cls(counts, kept, min(firsts, default=None), max(lasts, default=None), shortened)

    @property
    def problems(self) -> list[str]:
        """A sentence for each kind of cell that could not be read or had to be mended."""
        rows = self.counts["rows"]
        found = [_no_time(self.counts["no_timestamp"], rows), _clamped(self.counts["cached_above_input"], rows)]
        found += [_unreadable(name, self.counts[name], rows) for name in self._cells()]
        found += [worded(sentence, count) for sentence, count in self.counts.items() if _COUNT in sentence and count]
        return [sentence for sentence in found if sentence]

    def _cells(self) -> list[str]:
        return [name for name in self.counts if name.startswith("bad_") and name not in {"bad_rows", "bad_timestamp"}]

    def check(self, trace: Trace) -> None:
        """Raise if the trace is strict and something could not be read.

        Raises:
            InputError: naming the sources and everything that is wrong.
        """
        if trace.strict and self.problems:
            raise InputError(
                f"{', '.join(trace.names)}: {' '.join(self.problems)}",
                "Mend the source, or leave out --strict to read what can be read (llmtrace check shows where the problems are).",
            )

    def complete(self, result: Result, trace: Trace) -> Result:
        """The result on the trace's clock, with its provenance and the notes of reading."""
        nothing = () if self.kept else ("No request passes the filters.",)
        shortened = [worded(sentence, count) for sentence, count in self.shortened.items()]
        told = result.with_provenance(self._provenance(trace), (*trace.notes, *self.problems, *shortened, *nothing))
        if trace.clock == "utc" or trace.span is None:
            return told
        return told.on_relative_clock(trace.span.start)

    def _provenance(self, trace: Trace) -> dict[str, Any]:
        return {
            "llmtrace": __version__,
            **trace.provenance(),
            "columns": list(trace.columns),
            "intake": {name: count for name, count in self.counts.items() if _COUNT not in name},
            "rows_read": self.counts["rows"],
            "rows": self.kept,
            "first": _on_clock(self.first, trace),
            "last": _on_clock(self.last, trace),
        }


def intake_of(counts: pl.DataFrame, kept: pl.DataFrame, shortened: Mapping[str, int] | None = None) -> Intake:
    """The intake of one part.

    Args:
        counts: the row of what was counted before the filters.
        kept: the requests that they let through, in order of time.
        shortened: which names were shortened.
    """
    time = pl.col("timestamp")
    ends = kept.select_seq(time.first().alias("first"), time.last().alias("last")).row(0, named=True)
    return Intake(counts.row(0, named=True), kept.height, **ends, shortened=shortened or {})


def _added(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    names = dict.fromkeys(name for one in counts for name in one)
    return {name: sum(one.get(name, 0) for one in counts) for name in names}


def _on_clock(moment: datetime | None, trace: Trace) -> str | float | None:
    if moment is None or trace.span is None:
        return None
    return moment.isoformat() + "Z" if trace.clock == "utc" else (moment - trace.span.start).total_seconds()


def _no_time(count: int, rows: int) -> str:
    if not count:
        return ""
    has, is_ = either(count, "has", "have"), either(count, "is", "are")
    return f"{_share(count, rows)} {has} no readable timestamp and {is_} left out."


def _clamped(count: int, rows: int) -> str:
    if not count:
        return ""
    return (
        f"{_share(count, rows)} {either(count, 'has', 'have')} more cached than input tokens; cached is cut to the input. "
        "If the source's input leaves cached tokens out, say --cached-mode exclusive."
    )


def _unreadable(name: str, count: int, rows: int) -> str:
    if not count:
        return ""
    return f"{_share(count, rows)} {either(count, 'has', 'have')} an unreadable {name.removeprefix('bad_')}, taken as missing."


def _share(count: int, rows: int) -> str:
    return f"{count:,} of {counted(rows, 'row')}"
