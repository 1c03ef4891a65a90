"""What `reuse-time` keeps of a part: its requests as they came, by key (see `summaries.following`), and counts over all of them.

Tables of a state, besides `parameters` and those of `returns` and `months`:

    totals    requests, and for `input_tokens` and `tokens` (input and output) their sum (Int128) and how many are known
    span      see `summaries.span`
    models    the name behind each key of a known model, where a key is a user and a model
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.analyses.chunks import chunk_sizes, cut, cut_keys, with_known
from llmtrace.summaries import keys, months, returns, sums, visits
from llmtrace.summaries.cells import frozen
from llmtrace.summaries.following import INNER_SCHEMA
from llmtrace.summaries.interning import Interner
from llmtrace.summaries.visits import Chunk, deal, known_sum

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llmtrace.summaries.interning import Ids, Integers, Keys

__all__ = ["TOKENS", "schemas", "summarise"]

TOKENS = ("input_tokens", "output_tokens")
_SCHEMAS: Mapping[str, Mapping[str, pl.DataType]] = {
    "totals": sums.summary(("input_tokens", "tokens")).schema,
    "span": {"requests": pl.Int64(), "first": pl.Datetime("us"), "last": pl.Datetime("us")},
    "models": {"key": pl.UInt64(), "name": pl.String()},
    "visits": visits.SCHEMA,
    "visits_of_users": visits.SCHEMA,
    "inner": INNER_SCHEMA,
    **returns.SCHEMAS,
    **months.SCHEMAS,
}

_HALF = 32
_LOWER = (1 << _HALF) - 1
_KNOWN, _UPPER, _REST = range(3)
_ONLY_INNER = np.uint64(keys.UNKNOWN + 1)
"""The inner key of all keys that have but one level."""


def schemas(outer: Sequence[str]) -> dict[str, Mapping[str, pl.DataType]]:
    """The columns of each table of a state but `parameters`; users have visits of their own unless they are in the outer key."""
    return {name: schema for name, schema in _SCHEMAS.items() if name != "visits_of_users" or "user" not in outer}


def summarise(part: pl.DataFrame, outer: Sequence[str], inner: Sequence[str], *, named: bool) -> dict[str, pl.DataFrame]:
    """The state of a part.

    Args:
        part: its requests in order of time: `timestamp`, `status`, both tokens, `user` and the columns of keys.
        outer: the columns of the outer key.
        inner: those of the inner key, if there is any.
        named: whether the inner key is a model whose name is kept.
    """
    tables = dict(_nothing())
    if part.is_empty():
        return tables
    sizes, is_user_outside = chunk_sizes(part), "user" in outer
    requests = _requests(part, sizes)
    levels = [outer, *([inner] if inner else []), *([] if is_user_outside else [["user"]])]
    chunks = list(cut_keys(part, levels, sizes))
    tables["inner"], ids = _numbered([chunk[1] if inner else np.full(chunk[0].size, _ONLY_INNER) for chunk in chunks])
    tables["totals"], tables["span"] = _totals(part.height, requests), _span(part["timestamp"])
    tables["visits"] = deal([Chunk(chunk[0], own, *some) for chunk, own, some in zip(chunks, ids, requests, strict=True)])
    if named:
        tables["models"] = keys.behind(np.concatenate(ids), tables["inner"]["key"].to_numpy(), part["model"])
    if not is_user_outside:
        users = zip((chunk[-1] for chunk in chunks), (times_us for times_us, *_ in requests), strict=True)
        tables["visits_of_users"] = deal([_of_users(*one) for one in users])
    return tables


@cache
def _nothing() -> Mapping[str, pl.DataFrame]:
    """The tables of a part without requests."""
    empty = {name: pl.DataFrame(schema=dict(schema)) for name, schema in _SCHEMAS.items()}
    return {**empty, "totals": _totals(0, []), "span": _span(pl.Series([], dtype=pl.Datetime("us")))}


def _requests(part: pl.DataFrame, sizes: Sequence[int]) -> list[tuple[Integers, Integers, Integers]]:
    """Chunk by chunk, arrivals, input and output tokens, negative where they are not known."""
    known = with_known(part, TOKENS)
    columns = (part["timestamp"].to_physical(), *(known[name].cast(pl.Int64) for name in TOKENS))
    chunks = zip(*(cut(column, sizes) for column in columns), strict=True)
    return [frozen(*(column.to_numpy() for column in chunk)) for chunk in chunks]


def _numbered(chunks: Sequence[Keys]) -> tuple[pl.DataFrame, list[Ids]]:
    """The table `inner`, and chunk by chunk the place of each request's key in it."""
    numbers = Interner()
    ids = [numbers.add(chunk) for chunk in chunks]
    requests = np.zeros(numbers.keys.size, np.int64)
    for some in ids:
        _count(some, requests)
    return pl.DataFrame({"key": numbers.keys, "requests": requests}), ids


def _of_users(users: Keys, times_us: Integers) -> Chunk:
    """Requests of users, of which only times matter."""
    nothing = np.zeros(users.size, np.int64)
    return Chunk(users, nothing.astype(np.uint32), times_us, nothing, nothing)


def _totals(requests: int, chunks: Sequence[tuple[Integers, Integers, Integers]]) -> pl.DataFrame:
    """The table `totals` of chunks of times, input and output tokens."""
    sides = np.zeros((2, 3), np.int64)
    for _, inputs, outputs in chunks:
        _add_up(inputs, outputs, sides)
    found = [(int(side[_UPPER]) << _HALF) + int(side[_REST]) for side in sides]
    rows = [(requests, found[0], int(sides[0, _KNOWN]), found[1], int(sides[1, _KNOWN]))]
    return pl.DataFrame(rows, dict(_SCHEMAS["totals"]), orient="row")


def _span(times: pl.Series) -> pl.DataFrame:
    """The span of a part whose arrivals are ascending."""
    return pl.DataFrame([(times.len(), times.first(), times.last())], dict(_SCHEMAS["span"]), orient="row")


@njit(nogil=True, cache=True)
def _count(ids: Ids, counts: Integers) -> None:
    for one in ids:
        counts[one] += 1


@njit(nogil=True, cache=True)
def _add_up(inputs: Integers, outputs: Integers, sides: Integers) -> None:
    """Add input tokens to the first row of `sides`; input and output tokens together, as far as they are known, to the second.

    How many are known, and the upper and the lower halves of them.
    """
    every, all_inputs, all_tokens = 0, 0, 0
    for row in range(inputs.size):
        every |= inputs[row] | outputs[row]
        all_inputs += inputs[row]
        all_tokens += inputs[row] + outputs[row]
    if every >> _HALF == 0:
        # All are known, and so many without upper halves have sums below 2^63.
        for side, total in ((0, all_inputs), (1, all_tokens)):
            sides[side, _KNOWN] += inputs.size
            sides[side, _REST] += total
        return
    for row in range(inputs.size):
        both = known_sum(inputs[row], outputs[row])
        for side, value, is_known in ((0, inputs[row], inputs[row] >= 0), (1, both, max(inputs[row], outputs[row]) >= 0)):
            if is_known:
                sides[side, _KNOWN] += 1
                sides[side, _UPPER] += value >> _HALF
                sides[side, _REST] += value & _LOWER
