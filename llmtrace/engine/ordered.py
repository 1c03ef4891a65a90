"""The requests of a trace in order of time, frame by frame, for what carries a state through them (`replay`).

A command makes `ordered = in_order(trace, columns)`, gives every frame of `for frame in ordered` to what it replays, and ends
with `ordered.complete(result)`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from llmtrace.engine.intake import Intake, intake_of
from llmtrace.engine.names import shortened
from llmtrace.engine.reading import ahead, read
from llmtrace.engine.survey import survey
from llmtrace.summaries.accumulator import Counter
from llmtrace.trace.parts import part_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    import polars as pl

    from llmtrace.engine.reading import Progress
    from llmtrace.result import Result
    from llmtrace.trace import Part, Trace

    Prepare: TypeAlias = "Callable[[pl.DataFrame], pl.DataFrame]"

__all__ = ["Ordered", "in_order"]

READERS = 1
"""Parts that are read at once unless told otherwise: Polars reads each of them with all processors."""


def in_order(
    trace: Trace,
    columns: Collection[str],
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    prepare: Prepare | None = None,
    whole_names: bool = False,
) -> Ordered:
    """The requests that a trace's filters let through, to be taken in order of time while the next parts are read.

    What a command needs it asks for itself (`trace.require`); a column that the trace lacks is null.

    Args:
        trace: an opened trace.
        columns: canonical columns that the frames shall have; `timestamp` comes with them. With `request_id` among them, it
            breaks ties in time, else the order of the files does.
        threads: parts that are read at once, ahead of the one that is worked on; memory holds so many, and that one.
        progress: called with the rows taken so far and the rows in total, from the calling thread.
        prepare: applied to each frame on the thread that has read it, so that hashing, for one, goes on beside the replay.
        whole_names: keep names too long to be told in a result as they are, for what writes the trace again.

    Raises:
        InputError: if a source has no readable time.
    """
    return Ordered(survey(trace), frozenset(columns), threads or READERS, progress, prepare, whole_names)


@dataclass
class Ordered:
    """The frames of a trace's parts, to be gone through once, and then what was read on the way.

    Attributes:
        trace: the trace with every slice dated, so that its span and window are known.
    """

    trace: Trace
    _columns: frozenset[str]
    _threads: int
    _progress: Progress | None
    _prepare: Prepare | None
    _whole_names: bool
    _intake: Intake | None = field(default=None, init=False)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """The frames in order, sorted by time; there is one at least, which has no rows if no request passes the filters.

        Raises:
            InputError: if a source is damaged; at the end, if the trace is strict and a cell could not be read.
            UsageError: if a predicate does not fit a value.
        """
        parts = self.trace.parts(part_rows(self._columns)) or [self.trace.empty_part()]
        total, done, intakes = sum(part.rows for part in parts), 0, Counter(Intake.combined)
        with ThreadPoolExecutor(self._threads, thread_name_prefix="llmtrace-read") as pool:
            for part, (frame, intake) in ahead(pool, self._read, parts, self._threads + 1):
                intakes.add(intake)
                yield frame
                done += part.rows
                if self._progress is not None:
                    self._progress(done, total)
        self._intake = intakes.total()
        self._intake.check(self.trace)

    @property
    def intake(self) -> Intake:
        """What was read, once every frame has been taken.

        Raises:
            RuntimeError: if frames are left, so that what was counted is not the trace.
        """
        if self._intake is None:
            raise RuntimeError("the trace has not been gone through to its end")
        return self._intake

    def complete(self, result: Result) -> Result:
        """The result on the trace's clock, with its provenance and the notes of reading, once every frame has been taken.

        Raises:
            RuntimeError: if frames are left.
        """
        return self.intake.complete(result, self.trace)

    def _read(self, part: Part) -> tuple[pl.DataFrame, Intake]:
        frame, counts = read(part, self._columns)
        frame, names = (frame, {}) if self._whole_names else shortened(frame)
        intake = intake_of(counts, frame, names)
        return (frame if self._prepare is None else self._prepare(frame)), intake
