"""Foreign files: what they are, where their rows begin, and how each canonical column is read from them.

`find` turns what the user names into `Source`s; `recognise` finds the layout of one by its content; the layout's `read` gives the
canonical cells as expressions. Adding a layout is one module here and one entry in `LAYOUTS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmtrace.errors import UsageError
from llmtrace.formats.aggregates import refuse
from llmtrace.formats.azure import Azure
from llmtrace.formats.bailian import Bailian
from llmtrace.formats.burstgpt import BurstGPT
from llmtrace.formats.canonical import Canonical
from llmtrace.formats.chutes import Chutes
from llmtrace.formats.generic import Generic
from llmtrace.formats.mooncake import Mooncake
from llmtrace.formats.ragpulse import RAGPulse
from llmtrace.schema import METADATA_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmtrace.formats.layout import Layout, Raw

__all__ = ["LAYOUTS", "recognise"]

LAYOUTS: Mapping[str, Layout] = {
    layout.name: layout for layout in (Canonical(), Azure(), BurstGPT(), Chutes(), Mooncake(), Bailian(), RAGPulse(), Generic())
}
"""Every layout by its name, in the order in which they are tried; generic, which takes anything, is the last."""


def recognise(raw: Raw, name: str | None = None) -> Layout:
    """The layout of a source: the one of that name, or the first that its content matches.

    A named layout is not tried here: what it misses, its `read` says, which knows of `--map`.

    Raises:
        InputError: if no layout is named and the rows are known not to be requests.
        UsageError: if there is no layout of that name.
    """
    if name is not None and name not in LAYOUTS:
        raise UsageError(f"--from {name}: there is no such layout", f"Choose one of: {', '.join(LAYOUTS)}.")
    if name is not None:
        return LAYOUTS[name]
    layout = next(layout for layout in LAYOUTS.values() if layout.matches(raw))
    if layout.name in {Generic.name, Canonical.name} and METADATA_SCHEMA not in raw.metadata:
        refuse(raw)
    return layout
