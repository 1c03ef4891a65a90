"""RAGPulse: JSON lines of retrieval-augmented requests, in seconds, whose `hash_ids` name components of any length.

Source: flashserve/RAGPulse. The ids of system prompt, passages, history and so on live in name spaces of their own and stand
for texts of different lengths, so they are no prefix blocks and are not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from llmtrace.formats.columns import Draft, Scheme, among

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmtrace.formats.layout import Raw, Reading, ReadOptions

__all__ = ["RAGPulse"]

_SCHEME = Scheme(
    "ragpulse",
    {
        "timestamp": ("timestamp",),
        "input_tokens": ("input_length",),
        "output_tokens": ("output_length",),
        "session": ("session_id",),
    },
    time_unit="s",
)


class RAGPulse:
    """`timestamp, input_length, output_length, hash_ids {sys_prompt, passages_ids, ...}, session_id`."""

    name: ClassVar[str] = "ragpulse"
    names: ClassVar[Mapping[str, tuple[str, ...]]] = _SCHEME.names

    def matches(self, raw: Raw) -> bool:
        """Whether `hash_ids` is an object with the ids of passages in it."""
        required = ("timestamp", "input_tokens", "output_tokens")
        return among(raw, ["hash_ids.passages_ids"]) is not None and all(among(raw, _SCHEME.names[name]) for name in required)

    def read(self, raw: Raw, options: ReadOptions) -> Reading:
        """The reading, on a clock that starts with the trace.

        Raises:
            MissingColumnError: if a column is not there.
            UsageError: if the times cannot be understood.
        """
        draft = Draft(raw, options, _SCHEME)
        draft.notes.append("hash_ids name components of any length, not prefix blocks, and are not read.")
        return draft.reading()
