"""How the kernels of a replay are compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["kernel"]

Function = TypeVar("Function", bound="Callable[..., Any]")


def kernel(function: Function) -> Function:
    """Compile a function that allocates nothing, cached on disk, so that it runs without the interpreter lock.

    Without Numba's runtime no references are counted. A policy's arrays pass through several functions for every request, and
    counting took up to nine tenths of the time of a replay.
    """
    # Numba's stubs leave out the options, as its documentation does. Nothing calls a kernel as C would.
    options: dict[str, Any] = {"nogil": True, "cache": True, "no_cfunc_wrapper": True, "_nrt": False}
    compiled: Function = njit(**options)(function)
    return compiled
