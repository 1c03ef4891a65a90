"""How good a reconstruction is, where a trace knows better: against its own sessions, and against its blocks of prompts.

A found link says that a request continues another one. It is judged where the truth knows both, and counted as

    true_links      requests of which the truth knows what they continue
    found_links     found links of which the truth knows both ends
    related_links   those whose ends belong together: to one session, or the later prompt begins with the whole earlier one
    right_links     those that lead to the very request that the truth names
    possible_links  true links that the rule could find at all: input and output of the earlier below the input of the later

Truth by sessions: a request continues the one of the same session before it. Truth by blocks: a request continues, of the earlier
ones of the same key whose whole prompt its own begins with, and whose input and output are below its input, the one with the
longest prompt. Only whole blocks are compared. One request can have several that continue it there, as branches of an agent do,
which reconstruction never allows.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from llmtrace.replay.kernels import kernel
from llmtrace.replay.sessions.given import Given
from llmtrace.replay.sessions.rings import lengthen
from llmtrace.replay.sessions.tracker import key_of, session_key
from llmtrace.summaries import keys
from llmtrace.summaries.cells import frozen, list_parts
from llmtrace.summaries.interning import Interner

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from llmtrace.replay.sessions.requests import Ids, Integers, Marks, Requests, Turns
    from llmtrace.trace import Trace

__all__ = ["BlockTruth", "Judge", "SessionTruth", "Truth", "Verdict", "truths"]

_TURN_BITS = 28
"""Bits of a mark that count the turns of a session."""
_LARGEST = (1 << 63) - 1
_ONE = np.uint64(1)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Verdict:
    """Counts of links; see above."""

    true_links: int = 0
    found_links: int = 0
    related_links: int = 0
    right_links: int = 0
    possible_links: int = 0

    def __add__(self, other: Verdict) -> Verdict:
        """The counts of both."""
        return Verdict(*(one + another for one, another in zip(astuple(self), astuple(other), strict=True)))

    @property
    def precision(self) -> float | None:
        """The share of found links that are right; None without any."""
        return self.right_links / self.found_links if self.found_links else None

    @property
    def recall(self) -> float | None:
        """The share of true links that are found; None without any."""
        return self.right_links / self.true_links if self.true_links else None


class Judge(Protocol):
    """What judges the links of the frame that was marked."""

    def __call__(self, turns: Turns) -> Verdict:
        """Count the links of the frame's requests."""


class Truth(Protocol):
    """What a trace knows of its sessions; fed part by part."""

    name: ClassVar[str]

    @property
    def columns(self) -> frozenset[str]:
        """Canonical columns that it reads."""

    def mark(self, frame: pl.DataFrame, requests: Requests) -> tuple[Requests, Judge]:
        """The requests of the next frame with marks that tell them again, and what judges their links."""


def truths(trace: Trace) -> list[Truth]:
    """What a trace knows of its sessions, the best first; nothing if it knows neither sessions nor blocks."""
    found: list[Truth] = [SessionTruth(session_key(trace.columns))] if "session" in trace.columns else []
    return found + ([BlockTruth(trace.block_size)] if "block_hashes" in trace.columns else [])


class SessionTruth(Truth):
    """A trace's own sessions: a request continues the one of the same session before it."""

    name: ClassVar[str] = "session"

    def __init__(self, key: Sequence[str]) -> None:
        """Know no session; these columns tell them apart."""
        self._key, self._sessions, self._given = key, Interner(), Given()

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the key."""
        return frozenset(self._key)

    def mark(self, frame: pl.DataFrame, requests: Requests) -> tuple[Requests, Judge]:
        """Mark requests with their session and turn, so that the mark of what a request continues is one less."""
        key = key_of(frame, self._key)
        total = np.where(key == keys.UNKNOWN, -1, requests.total_tokens)
        own = requests._replace(key=self._sessions.add(key), total_tokens=total)
        truth = self._given.add(own, self._sessions.keys.size)
        marks = np.where(truth.session < 0, 0, (truth.session << _TURN_BITS) + truth.turn + 1).astype(np.uint64)
        continued = truth.turn > 0
        possible = int((continued & (truth.prefix_tokens < requests.input_tokens)).sum())
        return requests._replace(marks=marks), _BySession(marks, int(continued.sum()), possible)


@dataclass(frozen=True)
class _BySession:
    marks: Marks
    true_links: int
    possible_links: int

    def __call__(self, turns: Turns) -> Verdict:
        judged = (turns.parent_marks > 0) & (self.marks > 0)
        own, parent = self.marks[judged] - _ONE, turns.parent_marks[judged] - _ONE
        related = int((own >> np.uint64(_TURN_BITS) == parent >> np.uint64(_TURN_BITS)).sum())
        right = int((own == parent + _ONE).sum())
        return Verdict(self.true_links, own.size, related, right, self.possible_links)


class BlockTruth(Truth):
    """A trace's blocks: a request continues the longest earlier prompt of its key that its own begins with.

    Memory grows with the distinct blocks of the trace, by about thirty bytes each.
    """

    name: ClassVar[str] = "block_hashes"
    columns = frozenset({"block_hashes"})

    def __init__(self, block_size: int | None) -> None:
        """Know no prompt; blocks have so many tokens, else all of a prompt's are taken as whole."""
        self._block_size = block_size
        self._blocks = Interner()
        self._ends = np.zeros(1 << 10, np.int64)

    def mark(self, frame: pl.DataFrame, requests: Requests) -> tuple[Requests, Judge]:
        """Mark requests with the last whole block of their prompts."""
        offsets, hashes = list_parts(frame["block_hashes"])
        lengths = np.diff(offsets)
        blocks = self._blocks.add(hashes * _SPREAD ^ np.repeat(frame["session_key"].to_numpy(), lengths))
        whole = lengths if self._block_size is None else np.minimum(lengths, requests.input_tokens // self._block_size)
        whole = np.where(requests.total_tokens < 0, 0, whole)
        lengthen(self._ends, self._blocks.keys.size)
        marks, truth = np.zeros((2, frame.height), np.uint64)
        starts, whole, blocks = frozen(offsets[:-1], whole, blocks)
        _mark(starts, whole, blocks, requests.input_tokens, requests.total_tokens, self._ends, marks, truth)
        return requests._replace(marks=marks), _ByBlocks(starts, whole, blocks, marks, truth)


@dataclass(frozen=True)
class _ByBlocks:
    starts: Integers
    whole: Integers
    blocks: Ids
    marks: Marks
    truth: Marks

    def __call__(self, turns: Turns) -> Verdict:
        true_links = int((self.truth > 0).sum())
        judged = (turns.parent_marks > 0) & (self.marks > 0)
        right = int((turns.parent_marks[judged] == self.truth[judged]).sum())
        related = _count_contained(self.starts, self.whole, self.blocks, np.where(judged, turns.parent_marks, np.uint64(0)))
        return Verdict(true_links, int(judged.sum()), related, right, true_links)


@kernel
def _mark(
    starts: Integers,
    whole: Integers,
    blocks: Ids,
    input_tokens: Integers,
    total_tokens: Integers,
    ends: Integers,
    marks: Marks,
    truth: Marks,
) -> None:
    """Note for each request the last whole block of its prompt, and that of the longest earlier prompt that it begins with.

    `ends` has, for each block that a prompt has ended with, the least input and output of such a request, plus 1.
    """
    for row in range(starts.size):
        if whole[row] == 0:
            continue
        last = starts[row] + whole[row] - 1
        for place in range(last, starts[row] - 1, -1):
            least = ends[blocks[place]]
            if 0 < least <= input_tokens[row]:
                truth[row] = blocks[place] + 1
                break
        own = blocks[last]
        marks[row] = own + 1
        total = min(total_tokens[row], _LARGEST - 1) + 1
        ends[own] = total if ends[own] == 0 else min(ends[own], total)


@kernel
def _count_contained(starts: Integers, whole: Integers, blocks: Ids, wanted: Marks) -> int:
    """The requests whose whole blocks have the wanted one among them, given as its number plus 1, 0 for none."""
    found = 0
    for row in range(starts.size):
        for place in range(starts[row], starts[row] + (whole[row] if wanted[row] > 0 else 0)):
            if blocks[place] + 1 == wanted[row]:
                found += 1
                break
    return found
