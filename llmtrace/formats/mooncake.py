"""Mooncake: JSON lines with prefix block ids, and the supersets that AIPerf, Dynamo and others write.

Source: kvcache-ai/Mooncake, FAST25 release (Qin et al.). Times are milliseconds from the start. `hash_ids` are chained: an id
stands for its block and the whole prefix before it, the last block may be partial, and a block has 512 tokens unless a row
says otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from llmtrace.formats.bailian import Bailian
from llmtrace.formats.columns import Draft, Scheme, among
from llmtrace.formats.ragpulse import RAGPulse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmtrace.formats.layout import Raw, Reading, ReadOptions

__all__ = ["Mooncake"]

_SCHEME = Scheme(
    "mooncake",
    {
        "timestamp": ("timestamp", "created_time"),
        "input_tokens": ("input_length", "input_tokens"),
        "output_tokens": ("output_length", "output_tokens"),
        "request_id": ("request_id",),
        "user": ("user_id", "user"),
        "model": ("model",),
        "session": ("session_id",),
        "block_hashes": ("hash_ids",),
    },
    time_unit="ms",
    block_size=512,
)


class Mooncake:
    """`timestamp, input_length, output_length, hash_ids`."""

    name: ClassVar[str] = "mooncake"
    names: ClassVar[Mapping[str, tuple[str, ...]]] = _SCHEME.names

    def matches(self, raw: Raw) -> bool:
        """Whether times, lengths and `hash_ids` are there, and the file is none of those that count time otherwise."""
        required = ("timestamp", "input_tokens", "output_tokens", "block_hashes")
        return all(among(raw, _SCHEME.names[name]) for name in required) and not any(
            other.matches(raw) for other in (Bailian(), RAGPulse())
        )

    def read(self, raw: Raw, options: ReadOptions) -> Reading:
        """The reading, on a clock that starts with the trace.

        Raises:
            MissingColumnError: if a column is not there.
            UsageError: if the times cannot be understood.
        """
        draft = Draft(raw, options, _SCHEME)
        if draft.column("delay", "delay_ms"):
            draft.notes.append("Rows with a delay instead of a timestamp have no arrival time and are left out.")
        return draft.reading()
