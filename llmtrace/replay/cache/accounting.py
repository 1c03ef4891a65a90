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

__all__ = ["Hits", "of_found_blocks", "of_found_objects"]


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


def of_found_objects(found: Sizes, input_tokens: Integers, reusable_tokens: Integers, *, first: int = 0) -> Hits:
    """The hits of a replay of objects.

    Args:
        found: the size in the cache at each use, -1 at a miss.
        input_tokens: the input of each request.
        reusable_tokens: how much of it the session had before; what is in the cache beyond it does not count.
        first: the first request that counts; those before it warm the cache.

    >>> of_found_objects(np.array([-1, 600], np.int32), np.array([600, 900]), np.array([0, 700]))
    Hits(requests=2, hit_requests=1, input_tokens=1500, full_tokens=900, prefix_tokens=600)
    """
    is_hit = found[first:] != ABSENT
    tokens = input_tokens[first:]
    reused = np.minimum(np.minimum(found[first:], reusable_tokens[first:]), tokens)
    return _hits(is_hit, tokens, reused)


def of_found_blocks(found: Sizes, input_tokens: Integers, block_tokens: int, *, first: int = 0) -> Hits:
    """The hits of a replay of blocks; the last block of a prompt may hold fewer tokens.

    >>> of_found_blocks(np.array([0, 2], np.int32), np.array([900, 900]), 512)
    Hits(requests=2, hit_requests=1, input_tokens=1800, full_tokens=900, prefix_tokens=900)
    """
    tokens = input_tokens[first:]
    return _hits(found[first:] > 0, tokens, np.minimum(found[first:].astype(np.int64) * block_tokens, tokens))


def _hits(is_hit: npt.NDArray[np.bool_], tokens: Integers, reused: Integers) -> Hits:
    return Hits(
        requests=tokens.size,
        hit_requests=int(is_hit.sum()),
        input_tokens=int(tokens.sum()),
        full_tokens=int(tokens[is_hit].sum()),
        prefix_tokens=int(reused[is_hit].sum()),
    )
