"""The states of one eviction policy on all instances: its arrays, one for each instance, and the state of one as views into them.

The policies are those of `cache` (`llmtrace.replay.cache.policies`), whose kernels work on arrays over the objects of one cache.
Here objects are slots of an instance, of which there are as many as its cache has needed so far.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types
from numba.extending import overload

from llmtrace.replay.cache.policies import arc, gdsf, lfu, lhd, s3fifo
from llmtrace.replay.cache.rings import OLDEST
from llmtrace.replay.cache.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy.typing as npt

__all__ = ["MAKERS", "new_fleet", "of_instance", "with_slots"]

MAKERS: Mapping[str, Callable[[Stream, int], Any]] = {
    "s3fifo": s3fifo.new,
    "arc": arc.new,
    "gdsf": gdsf.new,
    "lfu": lfu.new,
    "lhd": lhd.new,
}
"""What makes an empty cache of each policy that instances take from `cache`."""


def new_fleet(policy: str, instances: int, slots: int, *, capacity: int, objects: int) -> Any:
    """Empty caches of instances with so many slots each.

    Args:
        policy: one of `MAKERS`.
        instances: how many.
        slots: of each one, two at least.
        capacity: what each cache may hold.
        objects: how many objects there are in all, after which LHD chooses its unit of age.
    """
    one = _state(policy, slots, capacity)
    if policy == "lhd":
        one = one._replace(counts=_state(policy, objects, capacity).counts)
    return _mapped(lambda array: np.repeat(array[None], instances, axis=0), one)


def with_slots(fleet: Any, slots: int) -> Any:
    """The same caches with more slots, so many."""
    if hasattr(fleet, "ring"):
        _begin_at_oldest(fleet.ring, fleet.span)
    # What a slot has before it is used; what is not of slots stays.
    fresh = _arrays(_state(_names()[type(fleet)], slots, 0))

    def longer(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        empty = next(fresh)
        if empty.shape == array.shape[1:]:
            return array
        grown = np.repeat(empty[None], array.shape[0], axis=0)
        grown[tuple(map(slice, array.shape))] = array
        return grown

    return _mapped(longer, fleet)


@cache
def _names() -> Mapping[type, str]:
    """The policy that each type is the state of."""
    return {type(_state(policy, 2, 0)): policy for policy in MAKERS}


def _state(policy: str, objects: int, capacity: int) -> Any:
    nothing = np.zeros(0, np.int32)
    return MAKERS[policy](Stream(nothing.astype(np.uint32), nothing, objects), capacity)


def _mapped(change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]], state: Any, known: dict[int, Any] | None = None) -> Any:
    """A state with every array changed; of two that are the same memory the second remains a view of the first."""
    known = {} if known is None else known
    if isinstance(state, np.ndarray):
        # Every array is changed, so that one that is seen again is in step too.
        changed, place = change(state), state.__array_interface__["data"][0]
        return known.setdefault(place, changed).view(state.dtype) if state.size else changed
    if isinstance(state, tuple):
        return type(state)(*(_mapped(change, field, known) for field in state))
    return state


def _arrays(state: Any) -> Iterator[npt.NDArray[Any]]:
    for field in state:
        if isinstance(field, np.ndarray):
            yield field
        elif isinstance(field, tuple):
            yield from _arrays(field)


def _begin_at_oldest(ring: npt.NDArray[Any], span: npt.NDArray[Any]) -> None:
    """Turn queues that go round so that each begins at the first place."""
    for place in np.ndindex(span.shape[:-1]):
        ring[place] = np.roll(ring[place], -span[place][OLDEST])
        span[place][OLDEST] = 0


def of_instance(fleet: Any, instance: int) -> Any:
    """The state of one instance; compiled code only."""
    raise NotImplementedError


def _views(fields: Any, instance: int) -> Any:
    """The same of a tuple of fields; compiled code only."""
    raise NotImplementedError


@overload(of_instance, strict=False, jit_options={"forceinline": True})
def _of_instance(fleet: Any, instance: Any) -> Any:
    kind = fleet.instance_class
    return lambda fleet, instance: kind(*_views(fleet, instance))


@overload(_views, strict=False, jit_options={"forceinline": True})
def _views_of(fields: Any, instance: Any) -> Any:
    """Of each field a view if it is an array, its views if it is a tuple of some, else itself. Numba knows no star here."""
    # ruff: noqa: RUF005, ARG005
    if len(fields) == 0:
        return lambda fields, instance: ()
    if isinstance(fields[0], types.Array):
        return lambda fields, instance: (fields[0][instance],) + _views(fields[1:], instance)
    if isinstance(fields[0], types.BaseNamedTuple):
        return lambda fields, instance: (of_instance(fields[0], instance),) + _views(fields[1:], instance)
    return lambda fields, instance: (fields[0],) + _views(fields[1:], instance)
