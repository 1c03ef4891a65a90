"""Sessions by the words of the paper, request by request: what everything else is compared with."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable


@dataclass
class Turn:
    """A request and its place in a session."""

    session: int
    turn: int
    endpoint: Hashable
    time_us: int
    total_tokens: int
    parent: Turn | None = None
    name: Any = None
    is_continued: bool = False

    @property
    def found(self) -> tuple[int, int, int, int]:
        """Session, turn, tokens of the prefix and time since the request that it continues."""
        if self.parent is None:
            return self.session, self.turn, 0, -1
        return self.session, self.turn, self.parent.total_tokens, self.time_us - self.parent.time_us


def _reconstruct(rows: Iterable[tuple[Any, ...]], k: int, max_gap_us: int | None = None) -> list[Turn | None]:
    """The turns of requests (key, endpoint, time, input, output, name), sorted; None for one that lacks a key or tokens."""
    recent: defaultdict[Hashable, deque[Turn]] = defaultdict(lambda: deque(maxlen=k))
    turns: list[Turn | None] = []
    sessions = 0
    for key, endpoint, time_us, input_tokens, output_tokens, *name in rows:
        if None in (key, input_tokens, output_tokens):
            turns.append(None)
            continue
        candidates = [
            old
            for old in recent[key]
            if not old.is_continued
            and old.endpoint == endpoint
            and old.total_tokens < input_tokens
            and (max_gap_us is None or time_us - old.time_us <= max_gap_us)
        ]
        # `max` gives the first of several, which is the oldest.
        parent = max(candidates, key=lambda old: old.total_tokens, default=None)
        if parent is None:
            turn = Turn(sessions, 0, endpoint, time_us, input_tokens + output_tokens)
            sessions += 1
        else:
            parent.is_continued = True
            turn = Turn(parent.session, parent.turn + 1, endpoint, time_us, input_tokens + output_tokens, parent)
        turn.name = name[0] if name else None
        recent[key].append(turn)
        turns.append(turn)
    return turns


@pytest.fixture(scope="session")
def reconstruct() -> Callable[..., list[Turn | None]]:
    """The oracle."""
    return _reconstruct
