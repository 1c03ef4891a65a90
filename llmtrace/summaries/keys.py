"""Keys: 64-bit hashes that stand for users, models, instances, sessions or tuples of them, and the names behind them.

Kernels meet a key as one UInt64. 0 is kept for "unknown" (a null in any of the columns); a true hash of 0 becomes 1. With n
distinct keys, two share a hash with probability n²/2⁶⁵: about 3·10⁻⁵ for thirty million.

Hashes are Polars' with a fixed seed, stable within one version of Polars. So stored states name the version (`HASH`), and
states of different versions refuse to combine (see `parameters`).
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.summaries.frames import gathered
from llmtrace.summaries.interning import Interner, first_rows, intern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llmtrace.summaries.interning import Ids, Keys

__all__ = ["HASH", "UNKNOWN", "behind", "combine_names", "key", "names", "numbered", "of", "of_each"]

UNKNOWN = 0
"""The key of a row whose key column is null."""
HASH = f"polars-{pl.__version__}"
"""Which hash function made the keys of a state."""
_SEED = 20_260_813


def key(*columns: str) -> pl.Expr:
    """The key of one or several columns: UInt64, `UNKNOWN` where any of them is null.

    >>> frame = pl.DataFrame({"user": ["a", "b", "a", None], "model": ["m", "m", "m", "m"]})
    >>> one, two, again, unknown = frame.select(key("user", "model")).to_series()
    >>> (one == again, one == two, unknown)
    (True, False, 0)
    """
    hashed = (pl.col(columns[0]) if len(columns) == 1 else pl.struct(*columns)).hash(_SEED)
    # Of one column, all_horizontal would take as long as the hash.
    known = reduce(and_, (pl.col(column).is_not_null() for column in columns))
    return (
        pl.when(known)
        .then(pl.max_horizontal(hashed, pl.lit(1, pl.UInt64)))
        .otherwise(pl.lit(UNKNOWN, pl.UInt64))
        .alias("_".join(columns))
    )


def of(column: pl.Series) -> Keys:
    """The keys of a column, as `key` makes them, worked out in this thread; to be read only.

    >>> users = pl.DataFrame({"user": ["a", None]})
    >>> of(users["user"]).tolist() == users.select(key("user")).to_series().to_list()
    True
    """
    return of_each(pl.DataFrame([column]))[0]


def of_each(frame: pl.DataFrame) -> list[Keys]:
    """The keys of each column of a frame, as `of` gives them; at once, because of the time that it takes to ask Polars.

    >>> frame = pl.DataFrame({"user": ["a", None], "model": ["m", "n"]})
    >>> [found.tolist() == of(column).tolist() for column, found in zip(frame, of_each(frame), strict=True)]
    [True, True]
    """
    hashed = frame.select_seq(pl.all().hash(_SEED))
    return [_known(column, found.to_numpy()) for column, found in zip(frame, hashed, strict=True)]


def _known(column: pl.Series, hashed: Keys) -> Keys:
    """The keys of a column from its hashes."""
    # An array of its own would be filled page by page, which takes longer than to hash; it is needed for one hash in 2^64.
    if column.null_count() or hashed.min(initial=1) == UNKNOWN:
        hashed = np.where(column.is_null().to_numpy(), np.uint64(UNKNOWN), np.maximum(hashed, np.uint64(1)))
        hashed.flags.writeable = False
    return hashed


def numbered(column: pl.Series) -> tuple[Ids, Keys]:
    """Dense integers for the keys of a column, in order of first appearance, worked out chunk by chunk in this thread.

    Returns:
        The integer of each row, and the key of each integer.

    >>> ids, distinct = numbered(pl.Series(["b", None, "b", "a"]))
    >>> ids.tolist(), distinct.tolist() == of(pl.Series(["b", None, "a"])).tolist()
    ([0, 1, 0, 2], True)
    """
    numbers = Interner()
    ids = np.concatenate([numbers.add(of(chunk)) for chunk in column.get_chunks()])
    return ids, numbers.keys


def behind(ids: Ids, distinct: Keys, names: pl.Series) -> pl.DataFrame:
    """The name behind each known key.

    Args:
        ids: the integer of each row.
        distinct: the key of each integer, in order of first appearance.
        names: of rows.

    Returns:
        `key` (UInt64, ascending) and `name` (as `names`).
    """
    named = pl.DataFrame([pl.Series("key", distinct), gathered(names, first_rows(ids, distinct.size)).alias("name")])
    return named.filter(pl.col("key") != UNKNOWN).sort("key")


def names(frame: pl.LazyFrame, by: str, column: str) -> pl.LazyFrame:
    """The name behind each key: one row per known key.

    Args:
        frame: requests.
        by: the column of keys, as `key` makes them from `column`.
        column: the column of names.

    Returns:
        `key` (UInt64, ascending) and `name` (as `column`).
    """
    return frame.select(pl.col(by).alias("key"), pl.col(column).alias("name")).map_batches(_behind)


def combine_names(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The names of all parts."""
    return pl.concat(frames).unique("key", keep="first").sort("key")


def _behind(frame: pl.DataFrame) -> pl.DataFrame:
    return behind(*intern(frame["key"].to_numpy()), frame["name"])
