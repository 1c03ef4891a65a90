"""How kernels are compiled that only kernels call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["inner", "warm_up"]

_Takes = ParamSpec("_Takes")
_Gives = TypeVar("_Gives")
_OPTIONS: Mapping[str, Any] = {"nogil": True, "cache": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def inner(function: Callable[_Takes, _Gives]) -> Callable[_Takes, _Gives]:
    """Compile a function without what Python needs to call it, which takes a fifth of the time that compiling takes."""
    compiled: Callable[_Takes, _Gives] = njit(**_OPTIONS)(function)
    return compiled


def warm_up() -> None:
    """Have Numba ready for kernels.

    Whichever is called first waits a fifth of a second for what is needed to take any from the cache, and so do those that others
    call meanwhile. While parts are read there is time for it.
    """
    _nothing()


@njit(nogil=True, cache=True)
def _nothing() -> None:
    pass
