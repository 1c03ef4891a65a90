"""Azure LLM inference traces of 2023, 2024 and 2025 (LMM): three columns, or four with the number of images.

Source: Azure/AzurePublicDataset (Patel et al., ISCA 2024; Stojkovic et al., HPCA 2025). The files of 2023 have Windows line
ends and times with seven digits after the point and no zone, which are UTC; those of 2024 carry `+00:00`, and full seconds
have no fraction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from llmtrace.formats.columns import Draft, Scheme, among

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmtrace.formats.layout import Raw, Reading, ReadOptions

__all__ = ["Azure"]

_SCHEME = Scheme(
    "azure", {"timestamp": ("TIMESTAMP",), "input_tokens": ("ContextTokens",), "output_tokens": ("GeneratedTokens",)}
)


class Azure:
    """`TIMESTAMP, ContextTokens, GeneratedTokens`."""

    name: ClassVar[str] = "azure"
    names: ClassVar[Mapping[str, tuple[str, ...]]] = _SCHEME.names

    def matches(self, raw: Raw) -> bool:
        """Whether all three columns are there."""
        return all(among(raw, names) for names in _SCHEME.names.values())

    def read(self, raw: Raw, options: ReadOptions) -> Reading:
        """The reading; images are not counted.

        Raises:
            MissingColumnError: if a column is not there.
            UsageError: if the times cannot be understood.
        """
        draft = Draft(raw, options, _SCHEME)
        if draft.column("NumImages"):
            draft.notes.append("NumImages is not read: input_tokens is ContextTokens, as published.")
        return draft.reading()
