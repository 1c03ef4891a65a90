"""Dressing: numbers of requests as canonical columns, most of them without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
import polars as pl
import pyarrow as pa
from numba import njit

from llmtrace.synth.arrivals import STATUSES
from llmtrace.synth.rates import DAY_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from llmtrace.synth.arrivals import Requests
    from llmtrace.synth.draws import Floats, Ints
    from llmtrace.synth.population import Population
    from llmtrace.synth.service import Served
    from llmtrace.synth.workload import Workload

    Mask: TypeAlias = "NDArray[np.bool_]"

__all__ = ["Dress", "frame_of"]

_ENDPOINTS = ("completion", "chat")


class Dress:
    """Turns numbers into canonical columns; words are dictionaries."""

    def __init__(self, workload: Workload, people: Population, start_us: int) -> None:
        """Get the names ready; the trace starts at `start_us`."""
        self._workload, self._people = workload, people
        self._users, self._models = _dictionary(people.user_names), _dictionary(people.model_names)
        width = len(str(workload.instances))
        self._instances = _dictionary([f"i{number + 1:0{width}}" for number in range(workload.instances)])
        self._endpoints, self._statuses = _dictionary(_ENDPOINTS), _dictionary(STATUSES)
        self._logged_us = start_us + int(workload.cached_from * workload.days * DAY_US)
        self._rows = 0

    def table(self, requests: Requests, served: Served | None) -> pa.Table:
        """The canonical table of rows that follow those of the last call; without what only service gives if there was none."""
        rows = requests.time_us.size
        ids = np.arange(self._rows, self._rows + rows)
        self._rows += rows
        ok = requests.status == 0
        columns = {
            "timestamp": _numbers(requests.time_us).view(pa.timestamp("us")),
            "input_tokens": _numbers(requests.input_tokens, ok),
            "output_tokens": _numbers(requests.output_tokens, ok),
            "request_id": _numbers(ids),
            "user": _words(requests.user, self._users),
            "model": _words(requests.model, self._models),
        }
        if served is not None:
            columns["instance"] = _words(np.where(ok, served.instance, 0), self._instances, ok)
        columns |= {
            "endpoint": _words(requests.chat, self._endpoints),
            "session": _spelled("s", requests.session),
            "turn": _numbers(requests.turn.astype(np.int32)),
            "stream": pa.Array.from_buffers(pa.bool_(), rows, [None, _bits(requests.stream == 1)]),
        }
        if served is not None:
            columns |= self._service(requests, served, ok)
        columns["status"] = _words(requests.status, self._statuses)
        if self._workload.block_size:
            columns["block_hashes"] = self._block_hashes(requests, ok)
        return pa.table(columns)

    def _service(self, requests: Requests, served: Served, ok: Mask) -> dict[str, pa.Array]:
        """What was cached and how long it took, as far as it is logged."""
        return {
            "cached_tokens": _numbers(served.cached_tokens, ok & (requests.time_us >= self._logged_us)),
            "ttft_s": _numbers(served.ttft_ms / 1000, ok & (requests.stream == 1)),
            "duration_s": _numbers(served.duration_ms / 1000),
        }

    def _block_hashes(self, requests: Requests, ok: Mask) -> pa.Array:
        """Ids of the whole blocks of each input, equal where all text up to the block's end is."""
        block, people = self._workload.block_size, self._people
        stride = self._workload.profile.context_tokens // block + 1
        shared = people.system_tokens[requests.app] // block
        shared_first = (requests.app * self._workload.models + requests.model) * stride
        shared_ids = people.system_tokens.size * self._workload.models * stride
        own_first = shared_ids + requests.session * stride
        ends = np.concatenate([[0], np.cumsum(np.where(ok, requests.input_tokens // block, 0))])
        ids = np.empty(ends[-1], np.uint64)
        _chains(ends, shared, shared_first, own_first, ids)
        buffers = [_bits(ok), pa.py_buffer(ends)]
        return pa.Array.from_buffers(pa.large_list(pa.uint64()), ok.size, buffers, children=[_numbers(ids)])


def frame_of(table: pa.Table) -> pl.DataFrame:
    """The table as a frame, its dictionaries as the words that they stand for."""
    return pl.DataFrame({name: _series(table[name].combine_chunks()) for name in table.column_names})


def _series(column: pa.Array) -> pl.Series:
    if pa.types.is_dictionary(column.type):
        words, indices = (cast("pl.Series", pl.from_arrow(part)) for part in (column.dictionary, column.indices))
        return words.gather(indices)
    return cast("pl.Series", pl.from_arrow(column))


def _dictionary(words: Sequence[str]) -> pa.Array:
    return pa.array(words, pa.large_string())


def _words(indices: Ints, dictionary: pa.Array, known: Mask | None = None) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(_numbers(indices.astype(np.int32), known), dictionary, safe=False)


def _numbers(values: Ints | Floats | NDArray[np.int32] | NDArray[np.uint64], known: Mask | None = None) -> pa.Array:
    """The values where known, null elsewhere."""
    buffers = [None if known is None else _bits(known), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), values.size, buffers)


def _bits(flags: Mask) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _spelled(letter: str, numbers: Ints) -> pa.Array:
    """Ids made of a letter and a number from 0 on."""
    ends = np.empty(numbers.size + 1, np.int64)
    _measure(numbers, ends)
    text = np.empty(ends[-1], np.uint8)
    _spell(ord(letter), numbers, ends, text)
    return pa.Array.from_buffers(pa.large_string(), numbers.size, [None, pa.py_buffer(ends), pa.py_buffer(text)])


@njit(nogil=True, cache=True)
def _measure(numbers: Ints, ends: Ints) -> None:
    """Where each id ends."""
    ends[0] = 0
    for row in range(numbers.size):
        size, rest = 2, numbers[row] // 10
        while rest > 0:
            size, rest = size + 1, rest // 10
        ends[row + 1] = ends[row] + size


@njit(nogil=True, cache=True)
def _spell(letter: int, numbers: Ints, ends: Ints, text: NDArray[np.uint8]) -> None:
    zero = ord("0")
    for row in range(numbers.size):
        text[ends[row]] = letter
        rest = numbers[row]
        for place in range(ends[row + 1] - 1, ends[row], -1):
            text[place] = zero + rest % 10
            rest //= 10


@njit(nogil=True, cache=True)
def _chains(ends: Ints, shared: Ints, shared_first: Ints, own_first: Ints, ids: NDArray[np.uint64]) -> None:
    """Each row's block ids: those of its application's prompt on its model, then its session's own."""
    for row in range(shared.size):
        for place in range(ends[row + 1] - ends[row]):
            first = shared_first[row] if place < shared[row] else own_first[row]
            ids[ends[row] + place] = first + place
