"""The radix heap against a list of everything in it, in the order in which it came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from llmtrace.replay.cache.radix import new_radix_heap, put, take_lowest, take_out

OBJECTS = 8
ranks = st.integers(0, 6) | st.floats(0, 1e12)
steps = st.lists(st.tuples(st.sampled_from(["put", "again", "lowest"]), st.integers(0, OBJECTS - 1), ranks), max_size=80)


@given(steps=steps)
def test_the_lowest_rank_leaves_and_of_equals_what_came_first(steps: list[tuple[str, int, float]]) -> None:
    heap, naive, floor = new_radix_heap(OBJECTS), dict[int, float](), 0.0
    for step, one, above in steps:
        if step == "lowest" and naive:
            expected = min(naive, key=naive.__getitem__)
            assert take_lowest(heap) == expected
            floor = naive.pop(expected)
        elif step == "again" and one in naive:
            take_out(heap, one)
            del naive[one]
        if step != "lowest" and one not in naive:
            naive[one] = floor + above
            put(heap, one, floor + above)
    while naive:
        expected = min(naive, key=naive.__getitem__)
        assert take_lowest(heap) == expected
        del naive[expected]
