"""The options of commands that replay caches: what they hold, and what a token takes."""

from typing import Annotated, Literal, TypeAlias

import typer

__all__ = ["BlockSize", "KvBytes", "KvModel", "Object", "Reconstruct"]

_PANEL = "Held in caches"

Object: TypeAlias = Annotated[
    Literal["session", "block"] | None,
    typer.Option(
        "--object", help="What is cached: blocks where the trace has hashes of them, else sessions.", rich_help_panel=_PANEL
    ),
]
BlockSize: TypeAlias = Annotated[
    int | None, typer.Option(metavar="TOKENS", help="Tokens per block, where the trace does not say.", rich_help_panel=_PANEL)
]
Reconstruct: TypeAlias = Annotated[
    bool,
    typer.Option("--reconstruct", help="Reconstruct sessions even if the trace has some or has hashes.", rich_help_panel=_PANEL),
]
KvBytes: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", help="Bytes that a token takes in the cache.", rich_help_panel=_PANEL)
]
KvModel: TypeAlias = Annotated[
    str | None, typer.Option(metavar="NAME", help="The same by the name of a model.", rich_help_panel=_PANEL)
]
