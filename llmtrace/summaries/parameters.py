"""The parameters that a state was made with, carried in it, so that states of other parameters refuse to combine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from llmtrace.summaries.keys import HASH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["combine", "plan"]


def plan(**parameters: object) -> pl.LazyFrame:
    """Name and text of each parameter, and which hash function made the keys.

    >>> plan(interval="1h").collect().rows()[0]
    ('interval', '1h')
    """
    named: Mapping[str, object] = {**parameters, "hash": HASH}
    return pl.LazyFrame({"name": list(named), "value": [str(value) for value in named.values()]}, schema=["name", "value"])


def combine(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The parameters that all states share.

    Raises:
        ValueError: if they do not; the message names those that differ.
    """
    kinds = {frame.rows() == frames[0].rows(): frame for frame in frames}
    if False in kinds:
        ours, theirs = dict(frames[0].iter_rows()), dict(kinds[False].iter_rows())
        differing = sorted(name for name in ours | theirs if ours.get(name) != theirs.get(name))
        pairs = ", ".join(f"{name} {ours.get(name)} and {theirs.get(name)}" for name in differing)
        raise ValueError(f"states of different parameters do not combine: {pairs}")
    return frames[0]
