"""Random draws in kernels, the same every time, by xorshift64*.

Vigna: "An experimental exploration of Marsaglia's xorshift generators, scrambled", ACM TOMS 42(4), 2016.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from llmtrace.replay.cache.kernels import kernel

if TYPE_CHECKING:
    import numpy.typing as npt

    State = npt.NDArray[np.uint64]

__all__ = ["draw", "new_draws"]

_SEED = 0x2545F4914F6CDD1D
_MULTIPLIER, _DRAWN_BITS = np.uint64(0x2545F4914F6CDD1D), np.uint64(33)
_RIGHT, _LEFT, _AGAIN = np.uint64(12), np.uint64(25), np.uint64(27)


def new_draws() -> State:
    """The state of a generator at its fixed seed."""
    return np.full(1, _SEED, np.uint64)


@kernel
def draw(random: State, bound: int) -> Any:
    """A number below a bound of at most 2^31, and the next state."""
    state = random[0]
    state ^= state >> _RIGHT
    state ^= state << _LEFT
    state ^= state >> _AGAIN
    random[0] = state
    return np.int64((state * _MULTIPLIER) >> _DRAWN_BITS) % bound
