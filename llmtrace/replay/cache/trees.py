"""Gradient-boosted trees: LightGBM grows them, a kernel walks them, so that a replay need not leave compiled code to predict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.errors import UsageError
from llmtrace.replay.kernels import kernel

if TYPE_CHECKING:
    from types import ModuleType

    import numpy.typing as npt

    Features = npt.NDArray[np.float32]
    Floats = npt.NDArray[np.float64]

__all__ = ["LEAVES", "TREES", "Trees", "grow", "lightgbm", "new_trees", "predict"]

TREES, LEAVES = 32, 32
_SETTINGS: dict[str, Any] = {
    "objective": "regression",
    "num_leaves": LEAVES,
    "learning_rate": 0.1,
    "feature_fraction": 0.8,
    "bagging_fraction": 0.8,
    "bagging_freq": 5,
    "use_missing": False,
    "seed": 1,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}
"""What the authors of LRB chose; and from `use_missing` on what makes the answer the same for every run and number of threads."""
_NODES = {"features": "split_feature", "thresholds": "threshold", "left": "left_child", "right": "right_child"}


class Trees(NamedTuple):
    """A row per tree. At a node a feature is compared with a threshold; a child below 0 is a leaf, with its bits inverted.

    `roots` has the first node of every tree, -1 for a tree of one leaf; `count` how many trees there are, 0 before any training.
    """

    features: Any
    thresholds: Any
    left: Any
    right: Any
    values: Any
    roots: Any
    count: Any


def new_trees() -> Trees:
    """Room for trees, and none yet."""
    nodes = (TREES, LEAVES - 1)
    return Trees(
        features=np.zeros(nodes, np.int32),
        thresholds=np.zeros(nodes),
        left=np.zeros(nodes, np.int32),
        right=np.zeros(nodes, np.int32),
        values=np.zeros((TREES, LEAVES)),
        roots=np.zeros(TREES, np.int32),
        count=np.zeros(1, np.int64),
    )


def lightgbm(asked: str) -> ModuleType:
    """The library.

    Args:
        asked: what needs it, as the user wrote it.

    Raises:
        UsageError: if it is not installed or cannot be loaded.
    """
    try:
        import lightgbm as library
    except (ImportError, OSError) as error:
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == "lightgbm"
        reason = "is not installed" if is_missing else f"cannot be loaded: {error}"
        raise UsageError(
            f"{asked} needs the library LightGBM, which {reason}", "Install it: pip install 'llmtrace-workload[lrb]'."
        ) from error
    return library


def grow(trees: Trees, features: Features, labels: Floats, asked: str) -> None:
    """Replace the trees by ones that are fitted to rows of features by least squares.

    Args:
        trees: changed.
        features: a row per observation.
        labels: what is to be predicted of each.
        asked: what needs LightGBM, as the user wrote it.

    Raises:
        UsageError: if LightGBM cannot be used.
    """
    library = lightgbm(asked)
    data = library.Dataset(features, labels, params=_SETTINGS)
    _read(trees, library.train(_SETTINGS, data, num_boost_round=TREES).model_to_string())


def _read(trees: Trees, text: str) -> None:
    """Take the trees out of a model as LightGBM writes it: a paragraph per tree, a line per array."""
    paragraphs = [part for part in text.split("\n\n") if part.lstrip().startswith("Tree=")]
    for row, paragraph in enumerate(paragraphs):
        lines = dict(line.split("=", 1) for line in paragraph.strip().splitlines() if "=" in line)
        values = np.array(lines["leaf_value"].split(), np.float64)
        trees.values[row, : values.size] = values
        trees.roots[row] = 0 if values.size > 1 else ~0
        for name, written in _NODES.items():
            into = getattr(trees, name)
            into[row, : values.size - 1] = np.array(lines.get(written, "").split(), into.dtype)
    trees.count[0] = len(paragraphs)


@kernel
def predict(trees: Trees, rows: Features, count: int, predicted: Floats) -> None:
    """Predict for the first `count` rows of features at once, tree by tree.

    Args:
        trees: not none.
        rows: features.
        count: how many.
        predicted: filled.
    """
    features, thresholds, left, right = trees.features, trees.thresholds, trees.left, trees.right
    predicted[:count] = 0.0
    for tree in range(trees.count[0]):
        for row in range(count):
            node = trees.roots[tree]
            while node >= 0:
                is_left = rows[row, features[tree, node]] <= thresholds[tree, node]
                node = left[tree, node] if is_left else right[tree, node]
            predicted[row] += trees.values[tree, ~node]
