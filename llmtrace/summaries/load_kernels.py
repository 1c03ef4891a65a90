"""The kernels of `loads`: the load of each request, and codes for where requests count.

A code has, from its highest bits on, the number of a panel, a place, and the bucket of a value. The place is a hexagon or a band;
of requests whose load is not known yet it is the bucket of their tokens, or 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numba import njit

from llmtrace.summaries import hexagons, profiles
from llmtrace.summaries.hexagons import hexagon
from llmtrace.summaries.histogram import bucket_indices, bucket_of, bucket_starts

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.summaries.groups import Ids, Integers

    Codes = npt.NDArray[np.uint32]
    Small = npt.NDArray[np.int32]
    Counts = npt.NDArray[np.uint32]
    Totals = np.ndarray[tuple[int, int], np.dtype[np.int64]]

Loads: TypeAlias = "tuple[Small, Small]"
"""Of each request the bucket (see `hexagons`) and the band of its load; -1 where it is not known."""

__all__ = [
    "BAND_EDGES",
    "BITS",
    "LARGEST",
    "MOST_PANELS",
    "VALUES",
    "band_codes",
    "bands_of",
    "hexagon_codes",
    "loads_of",
    "places_of",
    "settled",
    "start_of",
    "waiting_codes",
]

BITS = profiles.BITS
"""Significant bits of the buckets of values."""
BAND_EDGES = np.array([0, *(step * 10**power for power in range(18) for step in (1, 2, 5))], np.int64)
"""The lowest load of each band, in tokens; the last band has no end."""
LARGEST = np.iinfo(np.int64).max
"""Loads stop at this."""

_VALUE_BITS, _PLACE_BITS = 12, 2 * hexagons.SIDE_BITS
VALUES = 1 << _VALUE_BITS
MOST_PANELS = 1 << (32 - _PLACE_BITS - _VALUE_BITS)
_PLACES = 1 << _PLACE_BITS
_NOT_KNOWN = np.int32(-1)
_BUCKETS = np.arange((64 - hexagons.BITS) << hexagons.BITS)
_BAND_OF = np.searchsorted(BAND_EDGES, bucket_starts(_BUCKETS, hexagons.BITS), "right") - 1
"""The band of the lowest load of each bucket; the highest one may lie in the next."""


def start_of(panel: int) -> int:
    """The first code of a panel."""
    return panel << (_PLACE_BITS + _VALUE_BITS)


def places_of(codes: Codes) -> Codes:
    """The place of each code."""
    return ((codes >> _VALUE_BITS) % _PLACES).astype(np.uint32, copy=False)


def bands_of(tokens: Integers) -> Integers:
    """The band of each load.

    >>> bands_of(np.array([0, 1, 4, 5]))
    array([0, 1, 2, 3])
    """
    bands: Integers = np.searchsorted(BAND_EDGES, tokens, "right") - 1
    return bands


def loads_of(ids: Ids, distinct: int, tokens: Integers, borders: Integers) -> tuple[Loads, Totals]:
    """The loads of the requests of all seconds but the first and the last one.

    Args:
        ids: the instance of each request, as a number below `distinct`.
        distinct: how many there are.
        tokens: of each request.
        borders: where seconds begin, and the number of requests.

    Returns:
        The loads; per band the pairs of an instance and a second, their requests, and those that are the only one of a pair.
    """
    loads = np.full(ids.size, _NOT_KNOWN), np.full(ids.size, _NOT_KNOWN)
    totals = np.zeros((BAND_EDGES.size, 3), np.int64)
    _loads(ids, distinct, tokens, borders, loads, totals)
    return loads, totals


def hexagon_codes(panel: int, loads: Loads, sizes: Integers, values: Integers) -> tuple[Codes, Counts]:
    """The codes of requests in hexagons, ascending, and how often each occurs.

    Args:
        panel: its number.
        loads: of each request.
        sizes: tokens; those without do not count.
        values: what they took; -1 where not known.
    """
    codes = np.empty(values.size, np.uint32)
    codes = codes[: _hexagon_codes(start_of(panel), loads[0], sizes, values, codes)]
    codes.sort()
    starts = np.flatnonzero(np.diff(codes, prepend=~codes[:1]))
    return codes[starts], np.diff(starts, append=codes.size).astype(np.uint32)


def band_codes(panel: int, loads: Loads, values: Integers) -> tuple[Codes, Counts]:
    """The same in bands."""
    dense = np.zeros(BAND_EDGES.size << _VALUE_BITS, np.uint32)
    _tally(loads[1], values, dense)
    there = np.flatnonzero(dense)
    return (there + start_of(panel)).astype(np.uint32), dense[there]


def waiting_codes(panel: int, sizes: Integers | None, values: Integers) -> Codes:
    """The code of each request whose load is not known yet; all have values, and sizes if any has."""
    codes = bucket_indices(values, BITS) + start_of(panel)
    return (codes if sizes is None else codes + (bucket_indices(sizes, hexagons.BITS) << _VALUE_BITS)).astype(np.uint32)


def settled(codes: Codes, tokens: Integers, in_hexagons: npt.NDArray[np.bool_]) -> Codes:
    """The codes of requests that waited, now that their load is known.

    Args:
        codes: as they waited.
        tokens: the load of each.
        in_hexagons: per panel whether it has hexagons.
    """
    placed = np.empty(codes.size, np.uint32)
    _settle(codes, bucket_indices(tokens, hexagons.BITS), bands_of(tokens), in_hexagons, placed)
    return placed


@njit(nogil=True, cache=True)
def _loads(ids: Ids, distinct: int, tokens: Integers, borders: Integers, loads: Loads, totals: Totals) -> None:
    buckets, bands = loads
    load, members, latest = np.zeros(distinct, np.int64), np.zeros(distinct, np.int64), np.zeros(distinct, np.int64)
    for run in range(1, borders.size - 2):
        for row in range(borders[run], borders[run + 1]):
            one = ids[row]
            if latest[one] < run:
                latest[one], load[one], members[one] = run, 0, 0
            load[one] += min(tokens[row], LARGEST - load[one])
            members[one] += 1
        for row in range(borders[run], borders[run + 1]):
            one = ids[row]
            bucket = bucket_of(int(load[one]), hexagons.BITS)
            band = _BAND_OF[bucket]
            band += band < _BAND_OF[-1] and load[one] >= BAND_EDGES[band + 1]
            buckets[row], bands[row] = bucket, band
            totals[band, 0] += members[one] > 0
            totals[band, 1] += members[one]
            totals[band, 2] += members[one] == 1
            members[one] = 0


@njit(nogil=True, cache=True)
def _hexagon_codes(start: int, buckets: Small, sizes: Integers, values: Integers, codes: Codes) -> int:
    found = 0
    for row in range(values.size):
        if buckets[row] >= 0 and sizes[row] > 0 and values[row] >= 0:
            place = hexagon(buckets[row], bucket_of(sizes[row], hexagons.BITS))
            codes[found] = start + (place << _VALUE_BITS) + bucket_of(values[row], BITS)
            found += 1
    return found


@njit(nogil=True, cache=True)
def _tally(bands: Small, values: Integers, dense: Counts) -> None:
    for row in range(values.size):
        if bands[row] >= 0 and values[row] >= 0:
            dense[(bands[row] << _VALUE_BITS) + bucket_of(values[row], BITS)] += 1


@njit(nogil=True, cache=True)
def _settle(codes: Codes, buckets: Integers, bands: Integers, in_hexagons: npt.NDArray[np.bool_], placed: Codes) -> None:
    for row in range(codes.size):
        code = np.int64(codes[row])
        panel, size = code >> (_PLACE_BITS + _VALUE_BITS), (code >> _VALUE_BITS) % _PLACES
        place = hexagon(int(buckets[row]), int(size)) if in_hexagons[panel] else bands[row]
        placed[row] = (panel << (_PLACE_BITS + _VALUE_BITS)) + (place << _VALUE_BITS) + code % VALUES
