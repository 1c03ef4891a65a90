"""Qwen-Bailian: JSON lines much like Mooncake's, but in seconds, with blocks of 16 tokens whose ids are not chained.

Source: alibaba-edu/qwen-bailian-usagetraces-anon (Wang et al., arXiv 2506.02634). An id stands for its block alone, so the
prefix keys are chained here. Conversations are linked by `parent_chat_id`, which needs a walk over the trace and is not
followed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from llmtrace.formats.cells import chained
from llmtrace.formats.columns import Draft, Scheme, among

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmtrace.formats.layout import Raw, Reading, ReadOptions

__all__ = ["Bailian"]

_SCHEME = Scheme(
    "bailian",
    {
        "timestamp": ("timestamp",),
        "input_tokens": ("input_length",),
        "output_tokens": ("output_length",),
        "request_id": ("chat_id",),
        "endpoint": ("type",),
        "turn": ("turn",),
        "block_hashes": ("hash_ids",),
    },
    time_unit="s",
    first_turn=1,
    block_size=16,
)


class Bailian:
    """`chat_id, parent_chat_id, timestamp, input_length, output_length, type, turn, hash_ids`."""

    name: ClassVar[str] = "bailian"
    names: ClassVar[Mapping[str, tuple[str, ...]]] = _SCHEME.names

    def matches(self, raw: Raw) -> bool:
        """Whether the times and lengths come with a `chat_id`."""
        return all(among(raw, _SCHEME.names[name]) for name in ("timestamp", "input_tokens", "output_tokens", "request_id"))

    def read(self, raw: Raw, options: ReadOptions) -> Reading:
        """The reading, on a clock that starts with the trace.

        Raises:
            MissingColumnError: if a column is not there.
            UsageError: if the times cannot be understood.
        """
        draft = Draft(raw, options, _SCHEME)
        if "block_hashes" in draft.cells:
            draft.put("block_hashes", chained(draft.cells["block_hashes"]))
        if draft.column("parent_chat_id"):
            draft.notes.append("Conversations (parent_chat_id) are not followed: there is no session column.")
        return draft.reading()
