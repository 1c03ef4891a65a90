"""Going through a trace to answer a question about it: once to see how much there is, then to replay.

What must be known before the first request is replayed is how long the trace is, how many users and sessions it has, and of
every request whether another follows in its session. Where capacities are shares of the working set, that is replayed first. So
a trace is gone through two or three times, and never held.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from llmtrace.replay.route.answer import Found, answer
from llmtrace.replay.route.cell import UNLIMITED, Cell
from llmtrace.replay.route.disaggregate import HandOver, in_prefill
from llmtrace.replay.route.grid import Grid
from llmtrace.replay.route.lasts import Lasts, check_not_fewer
from llmtrace.replay.route.rules import Rule
from llmtrace.replay.route.stream import Extent, Preparer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt
    import polars as pl

    from llmtrace.replay.route.blocks import Prompts
    from llmtrace.replay.route.cell import Outcome
    from llmtrace.replay.route.gather import Gatherer, Lot
    from llmtrace.replay.route.question import Question
    from llmtrace.result import Result
    from llmtrace.trace import Trace

    Integers = npt.NDArray[np.int64]

__all__ = ["Known", "Pass", "Routing"]

_IDEAL = Cell(Rule("round-robin"), 1, UNLIMITED)


@dataclass(frozen=True)
class Known:
    """What is known of a trace that has been gone through.

    Attributes:
        extent: how much there is to route.
        handed: the same by the first tokens of requests.
        total: how many requests there are, with those that are not routed.
        models: how many models the trace names.
        remarks: how many requests are left out or lack something, by the sentence that says so.
        lasts: which request is the last of its session.
        block_lasts: which use of a block is the last one.
    """

    extent: Extent
    handed: Extent
    total: int
    models: int
    remarks: Mapping[str, int]
    lasts: Lasts
    block_lasts: Lasts


class Pass(Protocol):
    """One way through a trace.

    Attributes:
        tells: whether it says itself how far it is.
        columns: canonical columns that the frames shall have.
    """

    tells: bool
    columns: frozenset[str]

    def prepare(self, frame: pl.DataFrame) -> pl.DataFrame:
        """What `add` takes, worked out on the thread that has read the frame."""

    def add(self, frame: pl.DataFrame, progress: Callable[[int, int], None] | None = None) -> None:
        """Take the next frame, which has been prepared; what `progress` raises ends the work."""


class _Survey:
    """Sees how much there is."""

    tells = False

    def __init__(self, gatherer: Gatherer) -> None:
        self._gatherer, self.columns, self.prepare = gatherer, gatherer.columns, gatherer.prepare
        self._lasts, self._block_lasts = Lasts(), Lasts()
        self._input_tokens, self._arrivals, self._first_tokens = 0, _Span(), _Span()

    def add(self, frame: pl.DataFrame, progress: Callable[[int, int], None] | None = None) -> None:
        """Take the next frame."""
        del progress
        lot = self._gatherer.add(frame)
        self._lasts.add(lot.before)
        self._block_lasts.add(lot.blocks_before)
        self._input_tokens += int(lot.requests.input_tokens.sum(dtype="int64"))
        self._arrivals.add(lot.requests.arrival_us)
        self._first_tokens.add(lot.first_token_us)

    def known(self) -> Known:
        """What was seen."""
        seen = self._gatherer
        arrivals, first_tokens = (
            Extent(seen.routed, self._input_tokens, seen.users, seen.objects, *span.ends)
            for span in (self._arrivals, self._first_tokens)
        )
        return Known(arrivals, first_tokens, seen.total, seen.models, seen.remarks, self._lasts, self._block_lasts)


class _Span:
    """The first and the last of times."""

    def __init__(self) -> None:
        self.ends: tuple[int, int] | tuple[()] = ()

    def add(self, times_us: Integers) -> None:
        if times_us.size:
            first, last = int(times_us.min()), int(times_us.max())
            self.ends = (min(first, *self.ends[:1]), max(last, *self.ends[1:])) if self.ends else (first, last)


class _Replay:
    """Replays cells; and what goes on to decode instances."""

    tells = True

    def __init__(self, gatherer: Gatherer, known: Known, question: Question, cells: Sequence[Cell], threads: int | None) -> None:
        self.gatherer, self.columns, self.prepare = gatherer, gatherer.columns, gatherer.prepare
        self._known, self._uses = known, 0
        block_tokens = question.block_tokens if question.object == "block" else None
        self._preparer = Preparer(known.extent, question.load)
        self._grid = Grid(cells, known.extent, block_tokens, threads=threads)
        self._is_apart, self._handing = question.prefill is not None, None
        if question.decode is not None:
            self._handing = HandOver(known.handed, question.load, question.decode, question.seed)

    def add(self, frame: pl.DataFrame, progress: Callable[[int, int], None] | None = None) -> None:
        """Take the next frame."""
        lot, stop = self.gatherer.add(frame), self.gatherer.routed
        is_last = self._known.lasts.of(stop - len(lot.requests), stop)
        requests, prompts = in_prefill(lot) if self._is_apart else lot.requests, self._prompts(lot)
        self._grid.advance(self._preparer.add(requests, is_last, prompts), progress)
        if self._handing is not None:
            self._handing.add(lot, is_last)

    def outcomes(self) -> list[Outcome]:
        """Those of the cells, in their order.

        Raises:
            InputError: if the trace has not all requests that it had.
        """
        check_not_fewer(self.gatherer.routed, self._known.extent.requests)
        return self._grid.outcomes()

    def handed_over(self) -> Outcome | None:
        """What became of the requests on decode instances."""
        return None if self._handing is None else self._handing.outcome()

    def _prompts(self, lot: Lot) -> Prompts | None:
        if lot.prompts is None:
            return None
        start, self._uses = self._uses, self._uses + lot.prompts.ids.size
        return lot.prompts._replace(is_last=self._known.block_lasts.of(start, self._uses))


class Routing:
    """A question about a trace on its way to an answer.

    Args:
        question: what is asked.
        trace: an opened trace.
        threads: cells replayed at once; the number of processors by default.

    Raises:
        MissingColumnError: if the trace lacks what is asked for.
        UsageError: if blocks are of unknown size.
    """

    def __init__(self, question: Question, trace: Trace, threads: int | None = None) -> None:
        """Decide what is to be routed."""
        self.question = question.of_trace(trace)
        self._trace, self._threads = trace, threads
        self._found: Found | None = None

    def passes(self) -> Iterator[Pass]:
        """What the frames of the trace are to be given to, all of them to one before the next is taken."""
        question = self.question
        if not question.needs_working_set:
            # So that a capacity that makes no sense is told before anything is read.
            question.cells(0)
        survey = _Survey(question.gatherer(self._trace, looks_back=True))
        yield survey
        known, ideal = survey.known(), None
        # What it knows of every session is known no longer.
        del survey
        if question.needs_working_set:
            alone = self._replay(known, [_IDEAL])
            yield alone
            [ideal] = alone.outcomes()
        cells = question.cells(0 if ideal is None else ideal.logical_tokens)
        tried = question.tried(cells[-1])
        replay = self._replay(known, [*cells, *tried, *([_IDEAL] if ideal is None else [])])
        yield replay
        outcomes = replay.outcomes()
        ideal = outcomes.pop() if ideal is None else ideal
        self._found = Found(known, replay.gatherer, ideal, outcomes[: len(cells)], outcomes[len(cells) :], replay.handed_over())

    def answer(self) -> Result:
        """What was found, once all passes have been made.

        Raises:
            RuntimeError: if passes are left.
        """
        if self._found is None:
            raise RuntimeError("the trace has not been gone through as often as it takes")
        return answer(self.question, self._found)

    def _replay(self, known: Known, cells: Sequence[Cell]) -> _Replay:
        return _Replay(self.question.gatherer(self._trace), known, self.question, cells, self._threads)
