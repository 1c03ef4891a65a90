"""What counts as a hit: two accountings, always named.

`full`: a request that finds its object counts with its whole input, as in the eviction figure of "A Year in LLM Serving".
`prefix`: it counts with the tokens that are both in the cache and reusable, the others have to be computed. A session that grows
shows them apart: of a turn of 900 tokens whose predecessor left 600, full counts 900 and prefix 600.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from llmtrace.replay.cache.policy import ABSENT

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.replay.cache.stream import Sizes

    Integers = npt.NDArray[np.int64]

__all__ = ["Hits", "count", "of_found_blocks", "of_found_objects", "reused_of_blocks", "reused_of_objects"]


class Hits(NamedTuple):
    """Counts over requests.

    Attributes:
        requests: all that are counted.
        hit_requests: those that find something.
        input_tokens: of all that are counted.
        full_tokens: input tokens of those that find something.
        prefix_tokens: input tokens that need not be computed.
    """

    requests: int
    hit_requests: int
    input_tokens: int
    full_tokens: int
    prefix_tokens: int

    @property
    def request_hit_ratio(self) -> float | None:
        """Requests that find something, of all; None without requests."""
        return self.hit_requests / self.requests if self.requests else None

    @property
    def token_hit_ratio_full(self) -> float | None:
        """`full_tokens` over `input_tokens`; None without tokens."""
        return self.full_tokens / self.input_tokens if self.input_tokens else None

    @property
    def token_hit_ratio_prefix(self) -> float | None:
        """`prefix_tokens` over `input_tokens`; None without tokens."""
        return self.prefix_tokens / self.input_tokens if self.input_tokens else None


def reused_of_objects(found: Sizes, input_tokens: Sizes | Integers, reusable_tokens: Sizes | Integers) -> Sizes | Integers:
    """The tokens of each request that need not be computed.

    Args:
        found: the size in the cache at each use, -1 at a miss.
        input_tokens: the input of each request.
        reusable_tokens: how much of it the session had before; what is in the cache beyond it does not count.

    >>> reused_of_objects(np.array([-1, 600], np.int32), np.array([600, 900]), np.array([0, 700]))
    array([  0, 600])
    """
    return np.maximum(np.minimum(np.minimum(found, reusable_tokens), input_tokens), 0)


def reused_of_blocks(found: Sizes, input_tokens: Sizes | Integers, block_tokens: int) -> Integers:
    """The tokens of each request that need not be computed; the last block of a prompt may hold fewer than the others.

    >>> reused_of_blocks(np.array([0, 2], np.int32), np.array([900, 900]), 512)
    array([  0, 900])
    """
    return np.minimum(found.astype(np.int64) * block_tokens, input_tokens)


def of_found_objects(found: Sizes, input_tokens: Sizes | Integers, reusable_tokens: Sizes | Integers, *, first: int = 0) -> Hits:
    """The hits of a replay of objects, see `reused_of_objects`; requests before the `first` that counts warm the cache.

    >>> of_found_objects(np.array([-1, 600], np.int32), np.array([600, 900]), np.array([0, 700]))
    Hits(requests=2, hit_requests=1, input_tokens=1500, full_tokens=900, prefix_tokens=600)
    """
    reused = reused_of_objects(found, input_tokens, reusable_tokens)
    return count(found[first:] != ABSENT, input_tokens[first:], reused[first:])


def of_found_blocks(found: Sizes, input_tokens: Sizes | Integers, block_tokens: int, *, first: int = 0) -> Hits:
    """The hits of a replay of blocks, see `reused_of_blocks`; requests before the `first` that counts warm the cache.

    >>> of_found_blocks(np.array([0, 2], np.int32), np.array([900, 900]), 512)
    Hits(requests=2, hit_requests=1, input_tokens=1800, full_tokens=900, prefix_tokens=900)
    """
    reused = reused_of_blocks(found, input_tokens, block_tokens)
    return count(found[first:] > 0, input_tokens[first:], reused[first:])


def count(is_hit: npt.NDArray[np.bool_], tokens: Sizes | Integers, reused: Sizes | Integers) -> Hits:
    """The sums over requests: whether each finds something, its input, and what of it need not be computed."""
    return Hits(
        requests=tokens.size,
        hit_requests=int(is_hit.sum()),
        input_tokens=int(tokens.sum(dtype=np.int64)),
        full_tokens=int(tokens.sum(dtype=np.int64, where=is_hit)),
        prefix_tokens=int(reused.sum(dtype=np.int64)),
    )
