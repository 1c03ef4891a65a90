"""Memory that will be needed soon, for kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["fetch"]

_FOR_READING, _KEEP, _DATA = 0, 3, 1
"""What LLVM's `prefetch` wants to know: for what, how near, and of which cache."""
_arrays: Any = arrayobj
_building: Any = cgutils


def _fetch(_typing: Any, array: Any, row: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        of_array, of_row = signature.args
        places = [context.cast(builder, arguments[1], of_row, types.intp)]
        places += [context.get_constant(types.intp, 0)] * (of_array.ndim - 1)
        values = _arrays.make_array(of_array)(context, builder, arguments[0])
        address, flag = _building.voidptr_t, _building.int32_t
        pointer = builder.bitcast(_building.get_item_pointer(context, builder, of_array, values, places), address)
        kind = _building.ir.FunctionType(_building.ir.VoidType(), [address, flag, flag, flag])
        # LLVM completes the name by the kind of the pointer.
        prefetch = _building.get_or_insert_function(builder.module, kind, "llvm.prefetch")
        builder.call(prefetch, [pointer, flag(_FOR_READING), flag(_KEEP), flag(_DATA)])
        return context.get_dummy_value()

    return types.void(array, row), generate


fetch: Any = intrinsic(_fetch)
"""`fetch(array, row)`: have a row of an array brought near while other work goes on; compiled code only.

A processor looks ahead by itself, but not beyond a branch that it has guessed wrongly, as it does at every other use of a cache.
"""
