"""Sessions by the words of the paper, request by request: what everything else is compared with."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from llmtrace.trace import Trace

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


@pytest.fixture(scope="session")
def requests() -> pl.DataFrame:
    """Requests of few users with nulls and failures everywhere."""
    rows, rng = 2_000, np.random.default_rng(3)

    def some(values: list[Any], nulls: float) -> list[Any]:
        return [None if rng.random() < nulls else value for value in values]

    return pl.DataFrame(
        {
            "timestamp": [datetime(2025, 4, 11) + timedelta(seconds=int(s)) for s in rng.integers(0, 3_000, rows)],
            "input_tokens": some(rng.integers(1, 500, rows).tolist(), 0.03),
            "output_tokens": some(rng.integers(0, 50, rows).tolist(), 0.03),
            "request_id": [f"r{n:05}" for n in rng.permutation(rows)],
            "user": some([f"u{n}" for n in rng.integers(0, 8, rows)], 0.03),
            "model": some([f"m{n}" for n in rng.integers(0, 3, rows)], 0.03),
            "endpoint": some([f"e{n}" for n in rng.integers(0, 2, rows)], 0.2),
            "session": some([f"s{n}" for n in rng.integers(0, 300, rows)], 0.1),
            "status": some(["ok" if ok else "timeout" for ok in rng.random(rows) < 0.9], 0.1),
        },
        schema_overrides={"timestamp": pl.Datetime("us")},
    )


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut traces into parts of about 130 rows."""
    parts = Trace.parts
    monkeypatch.setattr(Trace, "parts", lambda trace, _rows=None: parts(trace, rows=130))
