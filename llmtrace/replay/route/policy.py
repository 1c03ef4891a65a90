"""What a routing policy is: a named tuple of arrays, and one kernel that chooses an instance.

`choose(policy, view, key, input_tokens)` gives an instance. `view` is what a router sees (`llmtrace.replay.route.view`), `key`
the number of the user, or of the session for a policy that hashes sessions, `NOBODY` if it is not known, and `input_tokens` the
length of the prompt. Numba picks the kernel by the type of the tuple while it compiles the loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba.extending import overload

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NOBODY", "choose", "implement"]

NOBODY = 0xFFFF_FFFF
"""The key of a request that names no user."""

_CHOICES: dict[type, Callable[..., Any]] = {}


def implement(state: type, kernel: Callable[..., Any]) -> None:
    """Say which plain function is the choice of the policy whose state is a `state`."""
    _CHOICES[state] = kernel


def choose(policy: Any, view: Any, key: Any, input_tokens: Any) -> Any:
    """The instance for a request; compiled code only."""
    raise NotImplementedError


# Not strict: a policy's own function annotates its state, which Numba would compare.
overload(choose, strict=False)(lambda policy, view, key, input_tokens: _CHOICES[policy.instance_class])  # noqa: ARG005
