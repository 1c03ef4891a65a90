"""The two accountings of a hit."""

from __future__ import annotations

import numpy as np

from llmtrace.replay.cache.accounting import of_found_blocks, of_found_objects
from llmtrace.replay.cache.replay import replay
from llmtrace.replay.cache.stream import of_objects


def test_growing_session_shows_the_two_accountings_apart() -> None:
    # Three turns of one session, of 600, 900 and 1,500 tokens; the outputs were 100 and 200. In a cache that keeps everything the
    # second turn finds 600 tokens and the third 900. Full accounting counts both turns as if nothing of them had to be computed:
    # 2,400 of 3,000 tokens. Prefix accounting leaves out the new ends of 300 and 600 tokens, which no cache can have: 1,500.
    tokens = np.array([600, 900, 1500])
    found = replay(of_objects(np.zeros(3, np.uint32), tokens.astype(np.int32)), "lru", 10_000)
    hits = of_found_objects(found, tokens, np.array([0, 700, 1100]))
    assert (hits.token_hit_ratio_full, hits.token_hit_ratio_prefix, hits.request_hit_ratio) == (0.8, 0.5, 2 / 3)


def test_tokens_that_are_there_but_not_reusable_do_not_count() -> None:
    # The context was cut: of 900 tokens in the cache, 200 are at the beginning of the new prompt.
    assert of_found_objects(np.array([900], np.int32), np.array([500]), np.array([200])).prefix_tokens == 200


def test_requests_that_warm_the_cache_are_left_out() -> None:
    found, tokens = np.array([-1, 5, -1, 7], np.int32), np.array([5, 9, 4, 7])
    hits = of_found_objects(found, tokens, tokens, first=2)
    assert hits == (2, 1, 11, 7, 7)


def test_no_requests_have_no_ratio() -> None:
    none = np.empty(0, np.int64)
    hits = of_found_objects(none.astype(np.int32), none, none)
    assert (hits.request_hit_ratio, hits.token_hit_ratio_full, hits.token_hit_ratio_prefix) == (None, None, None)


def test_last_block_of_a_prompt_may_be_partial() -> None:
    hits = of_found_blocks(np.array([2, 1], np.int32), np.array([700, 700]), 512)
    assert (hits.prefix_tokens, hits.full_tokens) == (700 + 512, 1400)
