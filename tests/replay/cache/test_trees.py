"""Trees in a kernel against LightGBM's own word on them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from llmtrace.errors import UsageError
from llmtrace.replay.cache.trees import TREES, grow, lightgbm, new_trees, predict

if TYPE_CHECKING:
    from types import ModuleType

    import numpy.typing as npt


def both(
    library: ModuleType, monkeypatch: pytest.MonkeyPatch, features: npt.NDArray[np.float32], labels: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """What the kernel and what LightGBM predict for the rows they learned from."""
    boosters, train = [], library.train

    def noted(*arguments: object, **options: object) -> object:
        boosters.append(train(*arguments, **options))
        return boosters[-1]

    monkeypatch.setattr(library, "train", noted)
    trees, ours = new_trees(), np.empty(len(features))
    grow(trees, features, labels, "a test")
    predict(trees, features, len(features), ours)
    return ours, boosters[0].predict(features)


def test_the_kernel_predicts_as_lightgbm_does(lightgbm_library: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    features = random.exponential(100, (3_000, 7)).astype(np.float32)
    labels = np.log1p(features[:, 2].astype(np.float64)) + (features[:, 4] > 50)
    ours, theirs = both(lightgbm_library, monkeypatch, features, labels)
    assert ours == pytest.approx(theirs, rel=1e-12)
    # They learned: a tenth of the variance is left at most.
    assert np.var(labels - ours) < 0.1 * np.var(labels)


def test_trees_of_one_leaf(lightgbm_library: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    features = np.arange(200, dtype=np.float32).reshape(100, 2)
    ours, theirs = both(lightgbm_library, monkeypatch, features, np.full(100, 2.5))
    assert ours == pytest.approx(theirs)
    assert ours == pytest.approx(np.full(100, 2.5))


@pytest.mark.usefixtures("lightgbm_library")
def test_new_trees_replace_all_old_ones() -> None:
    features, trees = np.arange(200, dtype=np.float32).reshape(200, 1), new_trees()
    grow(trees, features, features[:, 0].astype(np.float64), "a test")
    assert trees.count[0] == TREES
    predicted = np.empty(200)
    grow(trees, features, np.full(200, 1.0), "a test")
    predict(trees, features, 200, predicted)
    assert predicted == pytest.approx(np.ones(200))


def test_without_the_library_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(UsageError) as caught:
        lightgbm("--policy lrb")
    assert caught.value.message.startswith("--policy lrb needs the library LightGBM, which ")
    assert caught.value.hint == "Install it: pip install 'llmtrace-workload[lrb]'."
