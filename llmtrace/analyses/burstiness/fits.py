"""Distributions fitted to the positive gaps of the whole process, from their histogram.

The histogram has 11 significant bits: gaps below 4,096 microseconds are exact, longer ones are known to a relative 2^-12, and the
mean of each bucket is exact. Every gap is taken to be its bucket's mean, so that the mean of all gaps is exact, and their mean
logarithm is off by less than 10^-7. Parameters are those of maximum likelihood, with gaps in seconds and the location fixed at
zero.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.summaries.clock import BITS
from llmtrace.summaries.histogram import bucket_starts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Function = Callable[[Floats], Floats]

__all__ = ["DISTRIBUTIONS", "LEAST_GAPS", "tables"]

DISTRIBUTIONS = ("exponential", "gamma", "weibull", "lognormal")
LEAST_GAPS = 10
"""With fewer positive gaps nothing is fitted."""
_BLAS = "scipy.linalg.cython_blas"
POINTS = 200
"""How many gaps `survival` has at most."""

_FITS = {
    "distribution": pl.String,
    "shape": pl.Float64,
    "scale_s": pl.Float64,
    "gaps": pl.Int64,
    "log_likelihood": pl.Float64,
    "aic": pl.Float64,
    "ks": pl.Float64,
    "parameters": pl.String,
}


@dataclass(frozen=True)
class Gaps:
    """Positive gaps in buckets, shortest first, in seconds.

    Attributes:
        low: the shortest gap that each bucket can hold.
        high: the longest.
        mean: the mean of those that it holds.
        count: how many it holds.
    """

    low: Floats
    high: Floats
    mean: Floats
    count: Floats

    @property
    def total(self) -> float:
        """How many gaps there are."""
        return float(self.count.sum())

    def average(self, values: Floats) -> float:
        """The mean over all gaps of what is given per bucket."""
        return float((self.count * values).sum() / self.count.sum())


@dataclass(frozen=True)
class Fit:
    """A fitted distribution.

    Attributes:
        shape: its shape; None for the exponential distribution, which has none.
        scale_s: its scale.
        log_density: the logarithm of its density, per second.
        survival: the share of gaps that it expects to be longer.
    """

    shape: float | None
    scale_s: float
    log_density: Function
    survival: Function

    @property
    def parameters(self) -> dict[str, float]:
        """Its parameters by name."""
        return {"scale_s": self.scale_s} if self.shape is None else {"shape": self.shape, "scale_s": self.scale_s}


def tables(histogram: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """`fits` and `survival`, from the positive gaps of `clock`."""
    gaps = _gaps(histogram)
    if gaps.total < LEAST_GAPS:
        fitted: Mapping[str, Fit] = {}
    else:
        found = {name: _FITTERS[name](gaps) for name in DISTRIBUTIONS}
        fitted = {name: fit for name, fit in found.items() if fit is not None}
    rows = [_row(name, fit, gaps) for name, fit in fitted.items()]
    return {"fits": pl.DataFrame(rows, schema=_FITS), "survival": _survival(gaps, fitted)}


def _gaps(histogram: pl.DataFrame) -> Gaps:
    buckets, count = histogram["bucket"].to_numpy(), histogram["gaps"].to_numpy().astype(np.float64)
    mean = (histogram["total_us"].cast(pl.Float64) / histogram["gaps"]).to_numpy()
    return Gaps(bucket_starts(buckets, BITS) / 1e6, (bucket_starts(buckets + 1, BITS) - 1) / 1e6, mean / 1e6, count)


def _row(name: str, fit: Fit, gaps: Gaps) -> dict[str, object]:
    log_likelihood = float((gaps.count * fit.log_density(gaps.mean)).sum())
    return {
        "distribution": name,
        "shape": fit.shape,
        "scale_s": fit.scale_s,
        "gaps": int(gaps.total),
        "log_likelihood": log_likelihood,
        "aic": 2 * len(fit.parameters) - 2 * log_likelihood,
        "ks": _distance(fit, gaps),
        "parameters": json.dumps(fit.parameters),
    }


def _distance(fit: Fit, gaps: Gaps) -> float:
    """Kolmogorov and Smirnov's: the largest difference of the two distribution functions, sought at both ends of every bucket."""
    reached = gaps.count.cumsum() / gaps.total
    before = np.concatenate([[0.0], reached[:-1]])
    at_ends = np.abs(1 - fit.survival(gaps.high) - reached)
    at_starts = np.abs(1 - fit.survival(gaps.low) - before)
    return float(max(at_ends.max(), at_starts.max()))


def _survival(gaps: Gaps, fitted: Mapping[str, Fit]) -> pl.DataFrame:
    """The share of gaps longer than a gap, at ends of buckets evenly spaced on a logarithmic axis."""
    schema = dict.fromkeys(("gap_s", "empirical", *DISTRIBUTIONS), pl.Float64)
    if not gaps.count.size:
        return pl.DataFrame(schema=schema)
    wanted = np.geomspace(gaps.high[0], gaps.high[-1], POINTS)
    places = np.unique(np.searchsorted(gaps.high, wanted).clip(0, gaps.high.size - 1))
    gap_s = gaps.high[places]
    longer = gaps.total - gaps.count.cumsum()
    columns = {"gap_s": gap_s, "empirical": longer[places] / gaps.total}
    shown = {name: fitted[name].survival(gap_s) if name in fitted else None for name in DISTRIBUTIONS}
    return pl.DataFrame({**columns, **shown}, schema=schema)


def _exponential(gaps: Gaps) -> Fit:
    scale = gaps.average(gaps.mean)
    return Fit(None, scale, lambda gap: -gap / scale - np.log(scale), lambda gap: np.exp(-gap / scale))


def _gamma(gaps: Gaps) -> Fit | None:
    """The shape k solves log k - ψ(k) = log(mean) - mean(log)."""
    special = _special()
    mean = gaps.average(gaps.mean)
    apart = np.log(mean) - gaps.average(np.log(gaps.mean))
    shape = _root(lambda k: float(apart - np.log(k) + special.digamma(k)), 1 / (2 * apart)) if apart > _LEAST_SPREAD else None
    if shape is None:
        return None
    scale = mean / shape
    constant = special.gammaln(shape) + shape * np.log(scale)
    return Fit(
        shape,
        scale,
        lambda gap: (shape - 1) * np.log(gap) - gap / scale - constant,
        lambda gap: np.asarray(special.gammaincc(shape, gap / scale), np.float64),
    )


def _weibull(gaps: Gaps) -> Fit | None:
    """The shape k solves Σ x^k log x / Σ x^k - 1/k = mean(log); the scale is the k-th root of the mean of x^k."""
    logs = np.log(gaps.mean)
    mean_log = gaps.average(logs)
    spread = np.sqrt(gaps.average((logs - mean_log) ** 2))
    longest = logs.max()

    def excess(k: float) -> float:
        weights = gaps.count * np.exp(k * (logs - longest))
        return float((weights * logs).sum() / weights.sum() - 1 / k - mean_log)

    # Var(log x) = (π/k)²/6 for a Weibull distribution.
    shape = _root(excess, np.pi / (spread * np.sqrt(6))) if spread > _LEAST_SPREAD else None
    if shape is None:
        return None
    scale = float(np.exp(longest + np.log(gaps.average(np.exp(shape * (logs - longest)))) / shape))
    return Fit(
        shape,
        scale,
        lambda gap: np.log(shape / scale) + (shape - 1) * np.log(gap / scale) - (gap / scale) ** shape,
        lambda gap: np.exp(-((gap / scale) ** shape)),
    )


def _lognormal(gaps: Gaps) -> Fit | None:
    """The shape is the standard deviation of the logarithms, the scale the exponential of their mean."""
    special = _special()
    logs = np.log(gaps.mean)
    mean = gaps.average(logs)
    shape = float(np.sqrt(gaps.average((logs - mean) ** 2)))
    if shape <= _LEAST_SPREAD:
        return None
    constant = np.log(shape) + np.log(2 * np.pi) / 2
    return Fit(
        shape,
        float(np.exp(mean)),
        lambda gap: -(((np.log(gap) - mean) / shape) ** 2) / 2 - np.log(gap) - constant,
        lambda gap: np.asarray(special.ndtr((mean - np.log(gap)) / shape), np.float64),
    )


def _root(function: Callable[[float], float], near: float) -> float | None:
    """The root of a function that ascends through it, by halving; None beyond any shape that data can tell."""
    low, high = near, near
    while function(low) > 0:
        low /= 2
        if low < _LEAST_SHAPE:
            return None
    while function(high) < 0:
        high *= 2
        if high > 1 / _LEAST_SHAPE:
            return None
    middle = (low + high) / 2
    while low < middle < high:
        low, high = (low, middle) if function(middle) > 0 else (middle, high)
        middle = (low + high) / 2
    return middle


_LEAST_SPREAD = 1e-9
_LEAST_SHAPE = 1e-9
_FITTERS: Mapping[str, Callable[[Gaps], Fit | None]] = {
    "exponential": _exponential,
    "gamma": _gamma,
    "weibull": _weibull,
    "lognormal": _lognormal,
}


def _special() -> ModuleType:
    """SciPy's special functions, with all that they may want of its linear algebra, which the command line hides from Numba."""
    if sys.modules.get(_BLAS, ...) is None:
        del sys.modules[_BLAS]
    return importlib.import_module("scipy.special")
