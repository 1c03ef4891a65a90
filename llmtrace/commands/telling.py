"""What a command tells beside its result: notes, warnings, what was written and where."""

from __future__ import annotations

import sys
from contextlib import suppress

__all__ = ["say"]


def say(sentence: str) -> None:
    """Tell the user something on standard error. Where that is full or closed the work goes on: the result is what counts."""
    with suppress(OSError):
        sys.stderr.write(f"llmtrace: {sentence}\n")
