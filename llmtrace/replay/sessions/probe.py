"""A reconstruction that is followed only as far as its numbers go: by another rule, or judged by another truth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llmtrace.replay.sessions.truth import Verdict

if TYPE_CHECKING:
    from llmtrace.replay.sessions.requests import Integers, Requests, Turns
    from llmtrace.replay.sessions.rings import Rings
    from llmtrace.replay.sessions.tracker import Reconstruction
    from llmtrace.replay.sessions.truth import Judge, Truth

__all__ = ["Probe"]

_WORD_BITS = 32
_WORD = (1 << _WORD_BITS) - 1


@dataclass
class Probe:
    """Sums over the requests of a reconstruction; fed part by part.

    Attributes:
        rule: of the reconstruction.
        truth: what judges it, if anything.
        turns: requests at turn 0, and at turn 1.
        input_tokens: of all requests in sessions.
        prefix_tokens: theirs that are prefix.
        verdict: the links, as far as they are judged.
    """

    rule: Reconstruction
    truth: Truth | None = None
    turns: tuple[int, int] = (0, 0)
    input_tokens: int = 0
    prefix_tokens: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    _rings: Rings = field(init=False)

    def __post_init__(self) -> None:
        """Begin with no request."""
        self._rings = self.rule.rings()

    def add(self, requests: Requests, judge: Judge | None, keys: int) -> None:
        """Link the next requests, of so many keys so far, and note what is found."""
        self.note(requests, judge, self._rings.add(requests, keys))

    def note(self, requests: Requests, judge: Judge | None, turns: Turns) -> None:
        """Add up what was found of some requests, and judge it."""
        self.turns = self.turns[0] + int((turns.turn == 0).sum()), self.turns[1] + int((turns.turn == 1).sum())
        self.input_tokens += _sum(requests.input_tokens[turns.turn >= 0])
        self.prefix_tokens += _sum(turns.prefix_tokens)
        if judge is not None:
            self.verdict += judge(turns)


def _sum(values: Integers) -> int:
    """The sum of integers that are not negative, which never wraps."""
    return (int((values >> _WORD_BITS).sum()) << _WORD_BITS) + int((values & _WORD).sum())
