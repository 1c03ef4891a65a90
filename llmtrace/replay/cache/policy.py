"""What an eviction policy is: a named tuple of arrays, and four kernels that change them.

The replay loop keeps what is in the cache, and its sizes. A policy keeps an order, and is told and asked this:

- `hit(policy, now, one, was, size)`: object `one`, in the cache with size `was`, is used and has size `size` now;
- `miss(policy, now, one, size)`: it is used and not in the cache; whether it shall be let in;
- `evict(policy, now, incoming, held, pinned)`: the object that has to go, taken out of the policy's order. `incoming` is the size
  that room is made for, 0 where an object grew on a hit; `held` has the size of every object in the cache. `pinned` is None, or
  has for each object a number that is positive where the object must stay: then another is to be found, or `NONE`;
- `insert(policy, now, one, size)`: it comes in.
- `free(policy, one)`: it is in the cache and no longer pinned; only for policies that put pinned objects aside.
- `expect(policy, one)`: it will be used soon; only for policies that gain by having what they know of it brought near.
- `remembers(policy, one)`: whether anything is known of an object that is not in the cache, so that its number may not become
  another's; only for policies that remember what they evicted.
- `pauses(policy)`: whether the loop shall stop before the next request, and go on when it is called again; only for policies that
  have something to do outside compiled code.

`now` is the position in the stream. Numba picks the kernels by the type of the tuple while it compiles a loop, so a call of them
costs nothing when the loop runs, and a loop is compiled once per policy and cached on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from numba.extending import overload

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ABSENT", "Kernels", "evict", "expect", "free", "hit", "implement", "insert", "miss", "pauses", "remembers"]

ABSENT = -1
"""The size of an object that is not in the cache."""


def _nothing(policy: Any, one: int) -> None:
    pass


def _never(policy: Any) -> bool:
    return False


def _nobody(policy: Any, one: int) -> bool:
    return False


class Kernels(NamedTuple):
    """The functions of a policy, in plain Python that Numba compiles."""

    hit: Any
    miss: Any
    evict: Any
    insert: Any
    free: Any = _nothing
    expect: Any = _nothing
    pauses: Any = _never
    remembers: Any = _nobody


_KERNELS: dict[type, Kernels] = {}


def implement(state: type, **kernels: Callable[..., Any]) -> None:
    """Say which functions are the policy whose state is a `state`.

    Args:
        state: a named tuple of arrays.
        **kernels: plain functions named `hit`, `miss`, `evict`, `insert`, and `free`, `expect`, `remembers` and `pauses` if the
            policy wants them.
    """
    _KERNELS[state] = Kernels(**kernels)


def hit(policy: Any, now: int, one: int, was: int, size: int) -> None:
    """A use of an object in the cache; compiled code only."""
    raise NotImplementedError


def miss(policy: Any, now: int, one: int, size: int) -> bool:
    """A use of an object that is not in the cache; compiled code only."""
    raise NotImplementedError


def evict(policy: Any, now: int, incoming: int, held: Any, pinned: Any) -> Any:
    """The object that has to go; compiled code only."""
    raise NotImplementedError


def insert(policy: Any, now: int, one: int, size: int) -> None:
    """An object comes in; compiled code only."""
    raise NotImplementedError


def free(policy: Any, one: int) -> None:
    """An object in the cache is no longer pinned; compiled code only."""
    raise NotImplementedError


def expect(policy: Any, one: int) -> None:
    """An object will be used soon; compiled code only."""
    raise NotImplementedError


def pauses(policy: Any) -> bool:
    """Whether the loop shall stop before the next request; compiled code only."""
    raise NotImplementedError


def remembers(policy: Any, one: int) -> bool:
    """Whether anything is known of an object that is not in the cache; compiled code only."""
    raise NotImplementedError


# Not strict: a policy's own function may annotate its state.
def _kernel_of(policy: Any, name: str) -> Any:
    return getattr(_KERNELS[policy.instance_class], name)


# Strictly, Numba would read the annotations of the arguments too, but a policy's functions annotate their state. Inlined, because
# to hand a policy's arrays over costs more than most kernels do.
_options: dict[str, Any] = {"strict": False, "jit_options": {"forceinline": True}}

overload(hit, **_options)(lambda policy, now, one, was, size: _kernel_of(policy, "hit"))  # noqa: ARG005
overload(miss, **_options)(lambda policy, now, one, size: _kernel_of(policy, "miss"))  # noqa: ARG005
overload(evict, **_options)(lambda policy, now, incoming, held, pinned: _kernel_of(policy, "evict"))  # noqa: ARG005
overload(insert, **_options)(lambda policy, now, one, size: _kernel_of(policy, "insert"))  # noqa: ARG005
overload(free, **_options)(lambda policy, one: _kernel_of(policy, "free"))  # noqa: ARG005
overload(expect, **_options)(lambda policy, one: _kernel_of(policy, "expect"))  # noqa: ARG005
overload(pauses, **_options)(lambda policy: _kernel_of(policy, "pauses"))
overload(remembers, **_options)(lambda policy, one: _kernel_of(policy, "remembers"))  # noqa: ARG005
