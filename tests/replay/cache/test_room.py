"""What replays need of memory, against the arrays that they do take."""

from __future__ import annotations

import numpy as np
import pytest

from llmtrace.errors import InputError
from llmtrace.replay.cache import room
from llmtrace.replay.cache.policies import lrb
from llmtrace.replay.cache.replay import OF_LEAVES, POLICIES
from llmtrace.replay.cache.requests import Requests
from llmtrace.replay.cache.stream import of_objects

USES = 70_000


def of(objects: int) -> Requests:
    ids = np.random.default_rng(1).permutation(np.arange(USES) % objects).astype(np.uint32)
    sizes = np.ones(USES, np.int32)
    return Requests(of_objects(ids, sizes, objects), np.arange(USES), sizes, None, {})


def taken(state: object, shared: set[int]) -> int:
    """Bytes of the arrays of a state, each once, but for those that all replays share."""
    if isinstance(state, tuple):
        return sum(taken(part, shared) for part in state)
    if not isinstance(state, np.ndarray) or id(whole := state if state.base is None else state.base) in shared:
        return 0
    shared.add(id(whole))
    return state.nbytes


@pytest.mark.parametrize("objects", [10, 30_000, USES])
def test_no_policy_takes_more_than_is_reckoned_with(objects: int) -> None:
    stream = of(objects).stream
    states = [(name, maker(stream, USES // 2)) for policies in (POLICIES, OF_LEAVES) for name, maker in policies.items()]
    for name, state in states:
        shared = set[int]()
        taken((stream.ids, stream.sizes, stream.nexts, stream.forward), shared)
        assert taken(state, shared) <= room.state_bytes(name, objects, USES), name


@pytest.mark.usefixtures("lightgbm_library")
@pytest.mark.parametrize("objects", [10, USES])
def test_a_policy_that_learns_takes_no_more_either(objects: int) -> None:
    bound = room.state_bytes("lrb", objects, USES)
    assert bound / 2 < taken(lrb.new(of(objects).stream, USES), set()) <= bound


def test_as_many_run_at_once_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    requests, policies = of(1_000), ["lru", "lrb", "belady-size", "fifo"]
    assert room.at_once(requests, policies, 3) == 3
    monkeypatch.setattr(room, "memory_bytes", lambda: None)
    assert room.at_once(requests, policies, 2) == 2
    # The two that take most are reckoned with first.
    monkeypatch.setattr(room, "memory_bytes", lambda: 34 << 20)
    assert room.at_once(requests, policies, 4) == 2
    monkeypatch.setattr(room, "memory_bytes", lambda: 28 << 20)
    with pytest.raises(InputError, match=r"The replay needs up to 0\.0 GiB of memory, and there are 0\.0 GiB") as error:
        room.at_once(requests, policies, 4)
    assert error.value.hint == "Replay a part of the trace, with --since and --until or with --model."
