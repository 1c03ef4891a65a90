"""Which session each request belongs to, part by part: as the trace says, or reconstructed.

A command makes a tracker, `SessionTracker.of(trace)`, gives it the frames of `in_order(trace, tracker.columns,
prepare=tracker.prepare)` one after the other, and takes from `tracker.add(frame)` the session, the turn and the prefix of each
row.

Reconstruction follows section 1.1 of "A Year in LLM Serving" (Nixon et al., arXiv 2608.13573), which knows neither prompts nor
sessions: a request continues, among the last K of the same user to the same model, the one of the same endpoint whose input and
output tokens together are the most below its own input; the oldest of several; and each request is continued once at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import polars as pl

from llmtrace.errors import MissingColumnError, UsageError
from llmtrace.replay.sessions.given import Given
from llmtrace.replay.sessions.requests import NONE, Requests
from llmtrace.replay.sessions.rings import LONGEST_RING, NO_LIMIT_US, Rings
from llmtrace.schema import failed
from llmtrace.summaries import keys
from llmtrace.summaries.cells import frozen
from llmtrace.summaries.interning import Interner

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from llmtrace.replay.sessions.requests import Turns
    from llmtrace.summaries.interning import Keys
    from llmtrace.trace import Trace

__all__ = ["KEY_COLUMNS", "LEFT_OUT", "Reconstruction", "SessionTracker", "key_of", "session_key"]

KEY_COLUMNS = ("user", "model", "instance", "session")
"""Columns that a session may be confined to."""
LEFT_OUT = {
    1: "{count} {request has|requests have} failed and {belongs|belong} to no session.",
    2: "{count} {request has|requests have} no known input or output tokens and {belongs|belong} to no session.",
    3: "{count} {request does|requests do} not say whose {it is|they are}, and {belongs|belong} to no session.",
}
"""Why requests belong to no session, by the number that stands for it."""

_FAILED, _NO_TOKENS, _NO_KEY = LEFT_OUT
_LARGEST = (1 << 63) - 1
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_SECOND_US = 1_000_000


@dataclass(frozen=True)
class Reconstruction:
    """How sessions are reconstructed.

    Attributes:
        k: among how many of the last requests of a key the one is sought that is continued; 1 to 1,000.
        max_gap_s: how long before it must not have arrived; None is no limit.
        by: the columns of the key; None is `user`, and `model` if the trace has it.

    Raises:
        UsageError: if a parameter is out of range or a column cannot be part of a key.
    """

    k: int = 10
    max_gap_s: float | None = None
    by: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Check the parameters."""
        if not 1 <= self.k <= LONGEST_RING:
            raise UsageError(f"--k {self.k}: out of range", f"Give a whole number from 1 to {LONGEST_RING:,}.")
        if self.max_gap_s is not None and not 0 < self.max_gap_s < math.inf:
            raise UsageError(f"--max-gap {self.max_gap_s}: not a length of time", "Give a positive number, as in 15min or 2h.")
        _check_by(self.by)

    @property
    def max_gap_us(self) -> int:
        """The time limit in microseconds."""
        return NO_LIMIT_US if self.max_gap_s is None else min(round(self.max_gap_s * _SECOND_US), NO_LIMIT_US)

    def key(self, present: Collection[str]) -> tuple[str, ...]:
        """The columns of the key in a trace that has these."""
        if self.by is not None:
            return self.by
        return ("user", "model") if "model" in present else ("user",)

    def rings(self) -> Rings:
        """What finds the request that another continues."""
        return Rings(self.k, self.max_gap_us)


class Linker(Protocol):
    """What finds the request that another continues."""

    @property
    def sessions(self) -> int:
        """Sessions so far."""

    def add(self, requests: Requests, keys: int) -> Turns:
        """Link the next requests, of so many keys so far."""


class SessionTracker:
    """Finds the session of each request; fed part by part, in order of time.

    Attributes:
        key: the columns whose values requests of a session have in common.
        columns: canonical columns that it reads.
        linker: what finds the request that another continues.
        left_out: how many requests belong to no session, by the number of the reason (see `LEFT_OUT`).
    """

    def __init__(self, linker: Linker, key: tuple[str, ...], present: Collection[str]) -> None:
        """Track the sessions of a trace that has these canonical columns."""
        self.linker, self.key = linker, key
        optional = {"endpoint", "status", "request_id"} & set(present)
        self.columns = frozenset({"timestamp", "input_tokens", "output_tokens", *key, *optional})
        self.left_out = dict.fromkeys(LEFT_OUT, 0)
        self._keys, self._endpoints = Interner(), Interner()

    @classmethod
    def of(cls, trace: Trace, rule: Reconstruction | None = None, *, wanted_by: str = "sessions") -> SessionTracker:
        """The tracker of the trace's own sessions if it has any, else of reconstructed ones.

        Raises:
            MissingColumnError: if they cannot be reconstructed either.
        """
        if "session" in trace.columns:
            return cls.given(trace)
        return cls.reconstructing(trace, rule or Reconstruction(), wanted_by=wanted_by)

    @classmethod
    def given(cls, trace: Trace) -> SessionTracker:
        """The tracker of the sessions in a trace's column `session`; one that asks several models is one session for each.

        For a model knows nothing of what another was told.
        """
        return cls(Given(), session_key(trace.columns), trace.columns)

    @classmethod
    def reconstructing(cls, trace: Trace, rule: Reconstruction, *, wanted_by: str = "sessions") -> SessionTracker:
        """The tracker of reconstructed sessions.

        Raises:
            MissingColumnError: if the trace lacks a column of the key; the hint says what to do.
        """
        key = rule.key(trace.columns)
        missing = [column for column in key if column not in trace.columns]
        if missing:
            raise _missing(missing, trace.columns, wanted_by)
        return cls(rule.rings(), key, trace.columns)

    @property
    def is_given(self) -> bool:
        """Whether sessions are those of the trace."""
        return isinstance(self.linker, Given)

    @property
    def sessions(self) -> int:
        """Sessions so far."""
        return self.linker.sessions

    @property
    def keys(self) -> int:
        """Keys so far."""
        return self._keys.keys.size

    def prepare(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame with what `add` needs, worked out apart because that needs no state and can go on beside it.

        Columns: `session_key` (UInt64); `endpoint_key` (UInt64, where the trace has endpoints); `total_tokens`, input and output
        (-1 in a request that belongs to no session); `left_out`, the number of the reason, else 0.
        """
        key = key_of(frame, self.key)
        sums = frame.select(_total().alias("total"), _failed(frame))
        reasons = np.select(
            [sums["failed"].to_numpy(), sums["total"].to_numpy() < 0, key == keys.UNKNOWN], [_FAILED, _NO_TOKENS, _NO_KEY], 0
        )
        added = [pl.Series("session_key", key), pl.Series("left_out", reasons.astype(np.uint8))]
        if "endpoint" in frame.columns:
            added.append(pl.Series("endpoint_key", keys.of(frame["endpoint"])))
        total = pl.when(pl.col("left_out") == 0).then(sums["total"]).otherwise(NONE).alias("total_tokens")
        return frame.with_columns(added).with_columns(total).rechunk()

    def add(self, frame: pl.DataFrame) -> Turns:
        """The session, turn and prefix of each row of the next frame, which has been prepared."""
        return self.linker.add(self.requests(frame), self.keys)

    def requests(self, frame: pl.DataFrame) -> Requests:
        """The rows of the next frame as a linker takes them; each frame is taken once."""
        for reason, count in enumerate(np.bincount(frame["left_out"].to_numpy(), minlength=len(LEFT_OUT) + 1)[1:], 1):
            self.left_out[reason] += int(count)
        rows = frame.height
        endpoint = frame["endpoint_key"].to_numpy() if "endpoint_key" in frame.columns else np.zeros(rows, np.uint64)
        return Requests(
            *frozen(
                self._keys.add(frame["session_key"].to_numpy()),
                self._endpoints.add(endpoint),
                frame["timestamp"].to_physical().to_numpy(),
                frame["input_tokens"].fill_null(0).to_numpy(),
                frame["total_tokens"].to_numpy(),
            )
        )


def session_key(present: Collection[str]) -> tuple[str, ...]:
    """The columns that tell the sessions of a trace that has these columns, and gives sessions."""
    return ("session", "model") if "model" in present else ("session",)


def key_of(frame: pl.DataFrame, columns: Sequence[str]) -> Keys:
    """One key of several columns; unknown where one of them is null."""
    first, *others = (keys.of(frame[column]) for column in columns)
    key, unknown = first, first == keys.UNKNOWN
    for other in others:
        key, unknown = key * _SPREAD ^ other, unknown | (other == keys.UNKNOWN)
    key = np.maximum(key, np.uint64(1))
    key[unknown] = keys.UNKNOWN
    return key


def _total() -> pl.Expr:
    """Input and output tokens together, -1 where one of them is not known. The sum stops at 2^63 - 1."""
    total = pl.col("input_tokens") + pl.col("output_tokens")
    return pl.when(total < 0).then(_LARGEST).otherwise(total).fill_null(NONE)


def _failed(frame: pl.DataFrame) -> pl.Expr:
    return (failed() if "status" in frame.columns else pl.lit(value=False)).alias("failed")


def _check_by(by: tuple[str, ...] | None) -> None:
    if by is None:
        return
    text, choices = ",".join(by), f"Join one or several of these by commas, each once: {', '.join(KEY_COLUMNS)}."
    if not by or len(set(by)) < len(by):
        raise UsageError(f"--by {text}: not a list of different columns", choices)
    for column in by:
        if column not in KEY_COLUMNS:
            raise UsageError(f"--by {text}: '{column}' cannot be part of a key", choices)


def _missing(missing: Sequence[str], present: Collection[str], wanted_by: str) -> MissingColumnError:
    names, others = ", ".join(f"'{column}'" for column in missing), [column for column in KEY_COLUMNS if column in present]
    hint = f"Name the source column with --map {missing[0]}=COLUMN"
    if "session" in present:
        hint = "The trace has sessions of its own: take those with --given"
    if others:
        hint += f", or take another key with --by, of: {', '.join(others)}"
    return MissingColumnError(f"{wanted_by} needs {names} to reconstruct sessions, which the trace does not have", f"{hint}.")
