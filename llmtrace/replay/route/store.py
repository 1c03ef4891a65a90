"""What instances may hold in their caches: a named tuple of arrays, and three kernels. Sessions are one kind, blocks another.

- `has_room(store, now)`: whether request `now` of the slab can be served without more memory;
- `look_up(store, view, now)`: note in `view` how many tokens of the request each instance holds;
- `serve(store, view, now, instance)`: the instance computes the request and holds it.

In plain Python a store has three methods: `fed(stream)` is the same store before the next slab, `more(now)` the same one with
room for request `now`, and `closed()` what `spread` is in the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from numba.extending import overload

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Kernels", "has_room", "implement", "look_up", "serve"]


class Kernels(NamedTuple):
    """The functions of a kind of store, in plain Python that Numba compiles."""

    has_room: Any
    look_up: Any
    serve: Any


_KERNELS: dict[type, Kernels] = {}


def implement(state: type, **kernels: Callable[..., Any]) -> None:
    """Say which plain functions, named `has_room`, `look_up` and `serve`, work on a `state`."""
    _KERNELS[state] = Kernels(**kernels)


def has_room(store: Any, now: Any) -> Any:
    """Whether a request can be served without more memory; compiled code only."""
    raise NotImplementedError


def look_up(store: Any, view: Any, now: Any) -> Any:
    """Note what each instance holds of a request; compiled code only."""
    raise NotImplementedError


def serve(store: Any, view: Any, now: Any, instance: Any) -> Any:
    """Hold a request on an instance; compiled code only."""
    raise NotImplementedError


def _kernel_of(store: Any, name: str) -> Any:
    return getattr(_KERNELS[store.instance_class], name)


# Not strict: a store's own function annotates its state, which Numba would compare.
overload(has_room, strict=False)(lambda store, now: _kernel_of(store, "has_room"))  # noqa: ARG005
overload(look_up, strict=False)(lambda store, view, now: _kernel_of(store, "look_up"))  # noqa: ARG005
overload(serve, strict=False)(lambda store, view, now, instance: _kernel_of(store, "serve"))  # noqa: ARG005
