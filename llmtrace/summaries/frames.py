"""Arrays as columns of frames and back, without what Polars does in threads of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

__all__ = ["frame_of", "gathered", "moments", "series_of"]


class _Exported:
    """An Arrow array as any library may hand it over.

    Polars takes one of pyarrow's too, but imports for it what it needs for dictionaries alone, which takes as long as a kernel.
    """

    def __init__(self, array: pa.Array) -> None:
        """Hand this array over."""
        self._array = array

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        exported: tuple[object, object] = self._array.__arrow_c_array__(requested_schema)
        return exported


def series_of(name: str, array: pa.Array) -> pl.Series:
    """A column whose values are those of an Arrow array, not a copy.

    >>> column = series_of("rows", pa.array([3, 5]))
    >>> column.name, column.to_list()
    ('rows', [3, 5])
    """
    return pl.Series(_Exported(array)).alias(name)


def frame_of(columns: Mapping[str, npt.NDArray[Any]]) -> pl.DataFrame:
    """A frame whose columns are views of arrays.

    >>> frame_of({"key": np.array([3, 5], np.uint64)}).schema
    Schema([('key', UInt64)])
    """
    return pl.DataFrame([series_of(name, pa.array(values)) for name, values in columns.items()])


def moments(us: int, rows: int) -> npt.NDArray[np.datetime64]:
    """One moment again and again, from microseconds since 1970."""
    return np.full(rows, np.datetime64(us, "us"))


def gathered(column: pl.Series, rows: npt.NDArray[np.int64]) -> pl.Series:
    """The values of a column in some rows, chunk by chunk: Polars would put all chunks together to find them.

    >>> gathered(pl.concat([pl.Series(["a", "b"]), pl.Series(["c"])], rechunk=False), np.array([2, 0])).to_list()
    ['c', 'a']
    """
    order = np.argsort(rows)
    chunks = column.get_chunks()
    ends = np.cumsum([chunk.len() for chunk in chunks])
    cuts = np.searchsorted(rows[order], np.append(0, ends))
    found = [
        chunk[rows[order[low:high]] - (end - chunk.len())]
        for chunk, end, low, high in zip(chunks, ends, cuts, cuts[1:], strict=False)
    ]
    places = np.empty(order.size, np.int64)
    places[order] = np.arange(order.size)
    return pl.concat(found)[places] if found else column
