"""What `sessions` asks of a trace: its sessions, what they are like, and how far a reconstruction can be trusted."""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from llmtrace.errors import UsageError
from llmtrace.replay.sessions import tables
from llmtrace.replay.sessions.definitions import DEFINITIONS
from llmtrace.replay.sessions.notes import notes
from llmtrace.replay.sessions.probe import Probe
from llmtrace.replay.sessions.tally import Tally
from llmtrace.replay.sessions.tracker import Reconstruction, SessionTracker
from llmtrace.replay.sessions.truth import truths
from llmtrace.result import Result

if TYPE_CHECKING:
    from concurrent.futures import Future

    import polars as pl

    from llmtrace.replay.sessions.requests import Requests, Turns
    from llmtrace.replay.sessions.truth import Judge, Truth
    from llmtrace.trace import Trace

    Marked = dict[str | None, tuple[Requests, Judge | None]]

__all__ = ["GAPS_S", "KS", "Study"]

KS = (1, 2, 3, 5, 10, 20, 50, 100)
GAPS_S = (10.0, 60.0, 300.0, 900.0, 3_600.0, 43_200.0, 86_400.0, None)
"""What sensitivity is tried with, beside the rule itself: how many requests to look at, and time limits."""


class Study:
    """The sessions of a trace; fed part by part with the frames of `in_order(trace, study.columns, prepare=study.prepare)`."""

    name: ClassVar[str] = "sessions"

    def __init__(
        self,
        trace: Trace,
        rule: Reconstruction | None,
        *,
        sensitivity: bool = False,
        highlight: tuple[str, ...] = (),
        threads: int | None = None,
    ) -> None:
        """Study the sessions of a trace.

        Args:
            trace: an opened trace.
            rule: how to reconstruct sessions; None takes those that the trace gives.
            sensitivity: whether to reconstruct with other rules too.
            highlight: models to compare; the three with most requests if empty.
            threads: of the work beside the reconstruction; the number of processors by default.

        Raises:
            MissingColumnError: if the trace lacks a column of the key, or sessions where they are wanted.
            UsageError: if sensitivity is asked of given sessions.
        """
        if rule is None and sensitivity:
            raise UsageError("--sensitivity: sessions that the trace gives follow no rule", "Leave out --given or --sensitivity.")
        if rule is None:
            trace.require({"session"}, f"{self.name} --given")
        self.rule = rule
        self.tracker = SessionTracker.given(trace) if rule is None else SessionTracker.reconstructing(trace, rule)
        self._truths: list[Truth] = [] if rule is None else truths(trace)
        best = self._truths[0] if self._truths else None
        self._main = Probe(rule or Reconstruction(), best)
        self._judged = [Probe(self._main.rule, truth) for truth in self._truths[1:]]
        variations = _variations(self._main.rule) if sensitivity else {}
        self._varied = {name: [Probe(one, best) for one in rules] for name, rules in variations.items()}
        self._highlight = highlight
        self._tally = Tally(by_model="model" in self.tracker.key)
        self._pool = ThreadPoolExecutor(threads or os.cpu_count() or 1, thread_name_prefix="llmtrace-sessions")
        self._pending: list[Future[None]] = []
        self.columns = self.tracker.columns.union(*(truth.columns for truth in self._truths))

    def prepare(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame with what `add` needs; see `SessionTracker.prepare`."""
        return self.tracker.prepare(frame)

    def add(self, frame: pl.DataFrame) -> Turns:
        """The session, turn and prefix of each row of the next frame; what they are like is added up beside."""
        requests = self.tracker.requests(frame)
        marked: Marked = {None: (requests, None), **{truth.name: truth.mark(frame, requests) for truth in self._truths}}
        some, judge = marked[_name(self._main)]
        turns = self.tracker.linker.add(some, self.tracker.keys)
        self._wait()
        probes = [*self._judged, *(probe for probes in self._varied.values() for probe in probes)]
        self._pending = [self._pool.submit(probe.add, *marked[_name(probe)], self.tracker.keys) for probe in probes]
        if judge is not None:
            self._pending.append(self._pool.submit(self._main.note, some, judge, turns))
        self._pending.append(self._pool.submit(self._tally.add, frame, turns))
        return turns

    def result(self) -> Result:
        """What was found, once every frame has been added."""
        self._wait()
        self._pool.shutdown()
        totals, gaps = self._tally.turns(), self._tally.gaps()
        chosen = tables.highlighted(totals, self._highlight)
        found = {
            "turns": tables.turns(totals),
            "lengths": tables.lengths(totals),
            "gaps": tables.gaps(self._tally.by_step(), totals),
            "by_model": tables.by_model(totals, gaps[1]),
            "lengths_by_model": tables.lengths_by_model(totals, chosen),
            "gaps_by_model": tables.gaps_by_model(gaps[1], chosen),
            "quality": tables.quality([self._main, *self._judged]),
            "sensitivity": tables.sensitivity((name, probe) for name, probes in self._varied.items() for probe in probes),
        }
        scalars = tables.scalars(self._tally.requests, totals, gaps[0], self._main)
        return Result(
            command=self.name,
            parameters=self.parameters,
            scalars=scalars,
            tables=found,
            primary="turns",
            notes=notes(self.tracker, self.rule, scalars, found, self._highlight),
            definitions=DEFINITIONS,
            shown=("by_model",),
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON-ready."""
        rule = self.rule
        how = {"k": rule.k, "max_gap_s": rule.max_gap_s} if rule else {"k": None, "max_gap_s": None}
        return {"given": rule is None, **how, "by": list(self.tracker.key), "highlight": list(self._highlight)}

    def _wait(self) -> None:
        """Wait for what is done beside, so that one frame at most is held for it."""
        pending, self._pending = self._pending, []
        for future in pending:
            future.result()


def _name(probe: Probe) -> str | None:
    return probe.truth.name if probe.truth else None


def _variations(rule: Reconstruction) -> dict[str, list[Reconstruction]]:
    """The rule with other numbers of requests to look at, and with other time limits; itself among both."""
    gaps = sorted({*GAPS_S, rule.max_gap_s}, key=lambda gap: math.inf if gap is None else gap)
    return {
        "k": [replace(rule, k=k) for k in sorted({*KS, rule.k})],
        "max_gap_s": [replace(rule, max_gap_s=gap) for gap in gaps],
    }
