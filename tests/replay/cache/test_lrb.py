"""LRB: what it notes against a plain Python one that keeps all uses, what it evicts by hand, and what it learns."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.errors import InputError, UsageError
from llmtrace.replay.cache.capacity import Capacity, parse
from llmtrace.replay.cache.policies import lrb
from llmtrace.replay.cache.question import Question
from llmtrace.replay.cache.replay import play, replay
from llmtrace.replay.cache.stream import of_blocks, of_objects
from llmtrace.replay.draws import SEED

if TYPE_CHECKING:
    from llmtrace.replay.cache.stream import Stream
    from llmtrace.result import Result

Uses = list[tuple[int, int]]
"""Object and size of each use."""
GAPS, HALVINGS = 31, [1 << power for power in range(10, 20)]

objects = st.integers(0, 11)
changing = st.lists(st.tuples(objects, st.integers(1, 9)), min_size=1, max_size=150)


def stream_of(uses: Uses) -> Stream:
    ids, sizes = (np.array([use[column] for use in uses]) for column in (0, 1))
    return of_objects(ids.astype(np.uint32), sizes.astype(np.int32), 12)


def run(stream: Stream, capacity: int, *, leaves_only: bool = False, **options: int) -> tuple[list[int], lrb.LRB]:
    state = lrb.new(stream, capacity, **options)
    found = play(stream, state, capacity, leaves_only=leaves_only, pause=partial(lrb.learn, state))
    return found.tolist(), state


def path(leaf: int) -> list[int]:
    """Of a tree in which block `one` continues block `(one - 1) // 2`."""
    return [*(path((leaf - 1) // 2) if leaf else []), leaf]


@dataclass
class Naive:
    """LRU that keeps every use, and notes as LRB does before it is trained."""

    capacity: int
    window: int
    held: dict[int, int] = field(default_factory=dict)
    history: dict[int, list[int]] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    notes: dict[int, list[int]] = field(default_factory=dict)
    told: list[int] = field(default_factory=list)
    rows: list[list[float]] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    has_evicted: bool = False
    random: int = SEED

    def draw(self, bound: int) -> int:
        low = (1 << 64) - 1
        self.random = word = self.random + 0x9E3779B97F4A7C15 & low
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & low
        word = (word ^ word >> 27) * 0x94D049BB133111EB & low
        return ((word ^ word >> 31) >> 32) * bound >> 32

    def describe(self, one: int, then: int) -> list[float]:
        times = self.history[one][::-1]
        known = [time for time in times[1:] if then - time < self.window]
        gaps = [late - early for late, early in zip([times[0], *known], known, strict=False)][:GAPS]
        # What came before a gap as long as the window was forgotten.
        run = next((place for place in range(1, len(times)) if times[place - 1] - times[place] >= self.window), len(times))
        counters = [sum(0.5 ** ((then - time) / halving) for time in times[:run]) for halving in HALVINGS]
        return [then - times[0], self.sizes[one], *gaps, *[2 * self.window] * (GAPS - len(gaps)), *counters]

    def label(self, one: int, distance: int | None, now: int) -> None:
        for note in reversed(self.notes.pop(one, [])):
            self.rows.append(self.describe(one, note))
            self.labels.append(now - note if distance is None else distance)

    def tell(self, one: int, size: int) -> None:
        now = len(self.told)
        for other, times in self.history.items():
            if times[-1] == now - self.window:
                self.label(other, 2 * self.window, now)
        self.label(one, None, now)
        self.told.append(one)
        self.history.setdefault(one, []).append(now)
        self.sizes[one] = size
        for _ in range(8 if self.has_evicted else 0):
            use = now - self.draw(min(self.window, now + 1))
            if self.history[self.told[use]][-1] == use:
                self.notes.setdefault(self.told[use], []).append(now)
                break

    def use(self, one: int, size: int) -> None:
        if one not in self.held and size > self.capacity:
            return
        self.tell(one, size)
        self.held.pop(one, None)
        self.held[one] = size
        while sum(self.held.values()) > self.capacity:
            del self.held[next(iter(self.held))]
            self.has_evicted = True


@pytest.mark.usefixtures("lightgbm_library")
@given(uses=changing, capacity=st.integers(1, 60), window=st.integers(1, 40))
def test_notes_and_labels_are_the_naive_ones(uses: Uses, capacity: int, window: int) -> None:
    naive = Naive(capacity, window)
    for one, size in uses:
        naive.use(one, size)
    _, state = run(stream_of(uses), capacity, memory=window, batch=500)
    count = len(naive.labels)
    assert state.labels[:count].tolist() == naive.labels
    assert state.counts[4] == count
    assert state.features[:count] == pytest.approx(np.array(naive.rows).reshape(count, 2 + GAPS + 10), rel=1e-5)


@pytest.mark.usefixtures("lightgbm_library")
@given(uses=changing, capacity=st.integers(0, 60), window=st.integers(1, 40))
def test_never_trained_it_is_lru_for_objects(uses: Uses, capacity: int, window: int) -> None:
    found, state = run(stream_of(uses), capacity, memory=window)
    assert lrb.trainings(state) == 0
    assert found == replay(stream_of(uses), "lru", capacity).tolist()


@pytest.mark.usefixtures("lightgbm_library")
@given(leaves=st.lists(st.integers(0, 40), min_size=1, max_size=60), capacity=st.integers(0, 40), leaves_only=st.booleans())
def test_never_trained_it_is_lru_for_blocks(leaves: list[int], capacity: int, *, leaves_only: bool) -> None:
    paths = [path(leaf) for leaf in leaves]
    ids = np.array([one for prompt in paths for one in prompt], np.uint32)
    stream = of_blocks(ids, np.cumsum([0, *map(len, paths)]), 41)
    found, _ = run(stream, capacity, leaves_only=leaves_only)
    assert found == replay(stream, "lru", capacity, leaves_only=leaves_only).tolist()


def largest_first(trees: Any, *_others: object) -> None:  # noqa: ANN401
    """A model by which the larger of two objects is used later: a tree of one node for each size from 1 to 9."""
    trees.count[0] = 9
    for tree in range(9):
        trees.features[tree, 0], trees.thresholds[tree, 0] = 1, tree + 0.5
        trees.left[tree, 0], trees.right[tree, 0] = ~0, ~1
        trees.values[tree, :2] = 0, 1


A, B, C, D = range(4)


def taught(monkeypatch: pytest.MonkeyPatch, uses: Uses, capacity: int, window: int) -> list[int]:
    """What is found by an LRB that has learned to evict the largest object."""
    monkeypatch.setattr(lrb, "grow", largest_first)
    stream = stream_of(uses)
    state = lrb.new(stream, capacity, memory=window)
    lrb.learn(state)
    found: list[int] = play(stream, state, capacity).tolist()
    return found


@pytest.mark.usefixtures("lightgbm_library")
def test_growing_objects_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    # Room for 10. A grows to 6, which makes 11: it is the largest, and goes. A comes back with 5, which makes 10. C grows to 6,
    # makes 14, and goes. C comes back with 1, B grows to 4: 10 again. D comes, and A goes for it; A does not find itself.
    uses = [(A, 4), (B, 3), (C, 2), (A, 6), (B, 3), (A, 5), (C, 6), (C, 1), (B, 4), (D, 2), (A, 1)]
    assert taught(monkeypatch, uses, 10, 100) == [-1, -1, -1, 4, 3, -1, 2, -1, 3, -1, -1]
    assert replay(stream_of(uses), "lru", 10).tolist() != [-1, -1, -1, 4, 3, -1, 2, -1, 3, -1, -1]


@pytest.mark.usefixtures("lightgbm_library")
def test_what_is_beyond_the_window_goes_before_what_the_model_says(monkeypatch: pytest.MonkeyPatch) -> None:
    # C needs 6 of 10, and A and B hold 6. A was used 4 uses ago.
    uses = [(A, 1), (B, 5), (B, 5), (B, 5), (C, 6), (A, 1)]
    # Within the window, the larger one goes, and A is found. Beyond it A goes, and then B.
    assert taught(monkeypatch, uses, 10, 5) == [-1, -1, 5, 5, -1, 1]
    assert taught(monkeypatch, uses, 10, 4) == [-1, -1, 5, 5, -1, -1]


def periodic(uses: int) -> Stream:
    """Half of the uses go round 300 objects, more than LRU has room for beside the others."""
    random = np.random.default_rng(3)
    ids = np.where(random.random(uses) < 0.5, np.arange(uses) % 300, random.integers(300, 5_000, uses))
    return of_objects(ids.astype(np.uint32), np.ones(uses, np.int32))


@pytest.mark.usefixtures("lightgbm_library")
def test_it_learns_a_period_that_lru_cannot_hold() -> None:
    stream = periodic(30_000)
    found, state = run(stream, 400, batch=4_000)
    assert lrb.trainings(state) >= 3
    by_policy = {policy: int((replay(stream, policy, 400) >= 0).sum()) for policy in ("lru", "belady")}
    hits = sum(size >= 0 for size in found)
    assert 1.3 * by_policy["lru"] < hits < by_policy["belady"]


@pytest.mark.usefixtures("lightgbm_library")
def test_it_is_the_same_every_time() -> None:
    stream = periodic(8_000)
    (one, state), (other, _) = (run(stream, 400, batch=1_000) for _ in range(2))
    assert lrb.trainings(state) > 0
    assert one == other


def test_the_window_is_a_power_of_two_of_some_fills() -> None:
    # Sixty uses of size 1 to 60 of one object; it takes one more to be over 60.
    grows = of_objects(np.zeros(70, np.uint32), np.arange(1, 71, dtype=np.int32))
    assert lrb.window_of(grows, 60) == lrb.LEAST_WINDOW
    fills = of_objects(np.arange(5_000, dtype=np.uint32), np.full(5_000, 2, np.int32))
    # 1,025 uses are over 2,048: 8 times that is over 8,192.
    assert lrb.window_of(fills, 2_048) == 16_384
    assert lrb.window_of(fills, 2_046) == 8_192


def requests(count: int) -> pl.DataFrame:
    """Requests of many sessions, each with two blocks."""
    random, start = np.random.default_rng(4), datetime(2025, 4, 11)
    sessions = random.integers(0, 60, count)
    return pl.DataFrame(
        {
            "timestamp": [start + timedelta(seconds=second) for second in range(count)],
            "input_tokens": random.integers(10, 20, count),
            "session": [f"s{one}" for one in sessions],
            "status": pl.Series([None] * count, dtype=pl.String),
            "block_hashes": pl.Series([[int(one), int(one) + 100] for one in sessions], dtype=pl.List(pl.UInt64)),
        }
    )


def ask(question: Question, rows: pl.DataFrame, threads: int = 2) -> Result:
    asked, gatherer = question.of_trace(rows.columns, 10)
    gatherer.add(gatherer.prepare(rows))
    return asked.answer(gatherer.requests(), threads)


def curve_of(result: Result, policy: str) -> pl.DataFrame:
    return result.tables["curve"].filter(pl.col("policy") == policy)


NEVER = "Its model was never trained, for want of 131,072 labels, which training takes: it is lru to the last digit."


@pytest.mark.usefixtures("lightgbm_library")
@pytest.mark.parametrize(
    "question",
    [
        Question(("lru",), (parse("200"), parse("600")), object="session"),
        Question(("lru",), (Capacity("20", Fraction(20), "blocks"), Capacity("60", Fraction(60), "blocks"))),
        Question(("lru",), (Capacity("20", Fraction(20), "blocks"),), leaves_only=True),
    ],
)
def test_the_result_says_that_it_never_trained(question: Question) -> None:
    result = ask(Question(**{**vars(question), "policies": ("lru", "lrb")}), requests(400))
    lru, lrb_ = (curve_of(result, policy) for policy in ("lru", "lrb"))
    ratios = ["capacity_tokens", "request_hit_ratio", "token_hit_ratio_full", "token_hit_ratio_prefix", "hit_requests"]
    assert lru.select(ratios).equals(lrb_.select(ratios))
    assert set(lrb_["trainings"]) == {0}
    assert set(lrb_["window_uses"]) == {lrb.LEAST_WINDOW}
    assert set(lru["trainings"]) == {None}
    assert f"lrb looks back 4,096 uses. {NEVER}" in result.notes
    named = {*result.scalars, *(f"{name}.{column}" for name, table in result.tables.items() for column in table.columns)}
    assert named - set(result.definitions) == set()
    without = ask(question, requests(400))
    assert "trainings" not in without.tables["curve"].columns
    assert not any("lrb" in note for note in without.notes)


@pytest.mark.usefixtures("lightgbm_library")
def test_the_result_says_how_often_it_trained_whatever_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lrb, "new", partial(lrb.new, batch=200))
    # All 60 sessions fit into the largest, where nothing is ever evicted.
    question = Question(("lrb",), (parse("150"), parse("400"), parse("5000")), object="session")
    one, two = (ask(question, requests(1_500), threads) for threads in (1, 2))
    assert one.tables["curve"].equals(two.tables["curve"])
    found = curve_of(one, "lrb")["trainings"].to_list()
    assert found[0] >= found[1] > found[2] == 0
    times = f"{found[0]} times" if found[0] == found[1] else f"{found[1]} to {found[0]} times"
    assert any(f"Its model was trained {times} at 2 of 3 capacities; at the others never" in note for note in one.notes)
    trained = ask(Question(("lrb",), (parse("150"),), object="session"), requests(1_500))
    assert f"lrb looks back 4,096 uses. Its model was trained {found[0]} times." in trained.notes


@pytest.mark.usefixtures("lightgbm_library")
def test_leaves_need_chained_blocks() -> None:
    rows = requests(2).with_columns(pl.Series("block_hashes", [[1, 2], [2, 1]], dtype=pl.List(pl.UInt64)))
    question = Question(("lrb",), (Capacity("3", Fraction(3), "blocks"),), leaves_only=True)
    with pytest.raises(InputError, match="their hashes are not of whole prefixes"):
        ask(question, rows)


def test_the_extra_that_the_hint_names_is_there_and_documented() -> None:
    root = Path(__file__).parents[3]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert project["name"] == "llmtrace-workload"
    assert [one.split(">=")[0] for one in project["optional-dependencies"]["lrb"]] == ["lightgbm"]
    page = (root / "docs" / "cache.md").read_text()
    assert "| `lrb` |" in page
    assert "pip install 'llmtrace-workload[lrb]'" in page
    assert f"{lrb.BATCH:,} labels" in page
    assert f"at least {lrb.LEAST_WINDOW:,}" in page


def test_without_lightgbm_it_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(UsageError, match="--policy lrb needs the library LightGBM") as caught:
        Question(("lru", "lrb"))
    assert "pip install 'llmtrace-workload[lrb]'" in caught.value.hint
    assert Question(("lru",)).chosen == ("lru",)
