"""One sentence per number of `burstiness`, with its unit: the definitions that its result carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["definitions"]

_PEARSON = "Pearson's correlation of each gap with the next"
_SPEARMAN = "Spearman's rank correlation of each gap with the next, from binned ranks (ties at their mean rank)"
_FEW = "null with fewer than 3 pairs, or where gaps do not vary"
_FEW_RANKS = "null with fewer than 3 pairs, or where all gaps of one side have one bin"

_SCALARS = {
    "requests": "Number of requests, failed ones included.",
    "keys": "Number of distinct known keys.",
    "gaps": "Number of gaps between consecutive requests of the whole trace.",
    "first_timestamp": "Time of the earliest arrival.",
    "last_timestamp": "Time of the latest arrival.",
    "mean_gap_s": "Mean gap between consecutive requests of the whole trace, in seconds.",
    "std_gap_s": "Sample standard deviation of these gaps, in seconds.",
    "cv": "Coefficient of variation: std_gap_s over mean_gap_s; 0 for a regular stream, 1 for a Poisson stream.",
    "burstiness": "(std - mean) / (std + mean) of the gaps: -1 for a regular stream, 0 for a Poisson stream, near 1 for bursts.",
    "lag1_pearson": f"{_PEARSON}; {_FEW}.",
    "lag1_log_pearson": f"{_PEARSON}, both as logarithms, over the positive gaps (ties left out); {_FEW}.",
    "lag1_spearman": f"{_SPEARMAN}; {_FEW_RANKS}.",
    "lag1_spearman_bound": "The exact lag1_spearman differs by at most this.",
    "quantum_s": (
        "Step of the clock that stamped the requests, in seconds: the most frequent positive gap if at least 20 % of the "
        "positive gaps lie within 1 % of it, else the greatest common divisor of all gaps."
    ),
    "tie_share": "Share of the gaps that are zero, 0 to 1; of the clock as it stamped the requests.",
    "share_keys_cv_above_1": "Of the keys with at least 10 gaps and a cv, the share where it exceeds 1, 0 to 1.",
    "share_keys_lag1_positive": "Of the keys with at least 10 gaps and a lag1_spearman, the share where it is positive, 0 to 1.",
    "protocol": "What the scalars and by_key are over; a note says what each of the other tables is over.",
}

_BY_KEY = {
    "requests": "Requests of the key.",
    "gaps": "Gaps between consecutive requests of the key.",
    "tie_share": "Share of these gaps that are zero, 0 to 1.",
    "mean_gap_s": "Their mean, in seconds.",
    "std_gap_s": "Their sample standard deviation, in seconds.",
    "cv": "Coefficient of variation: std_gap_s over mean_gap_s.",
    "burstiness": "(std - mean) / (std + mean).",
    "lag1_pearson": f"{_PEARSON}; {_FEW}.",
    "lag1_log_pearson": f"{_PEARSON}, both as logarithms, over the key's positive gaps; {_FEW}.",
    "lag1_spearman": f"{_SPEARMAN}; {_FEW_RANKS}.",
    "lag1_spearman_bound": "The exact lag1_spearman differs by at most this.",
}

_VALID = "valid hours (clock hours with at least 10 requests and at least 5 positive gaps)"
_BUSY = "busy hours (clock hours with at least 10 requests)"
_CV_OF_HOURS = "of the coefficients of variation of the positive gaps within each valid hour"

_BY_HOUR = {
    "requests": "Requests of the key; more than 100.",
    "valid_hours": f"Number of {_VALID}; at least 5.",
    "mean_requests_per_hour": "Mean requests of a valid hour.",
    "cv_mean": f"Mean {_CV_OF_HOURS}; gaps over the end of an hour count nowhere.",
    "cv_median": f"Median {_CV_OF_HOURS}.",
    "cv_p75": f"75th percentile {_CV_OF_HOURS}.",
    "cv_p90": f"90th percentile {_CV_OF_HOURS}.",
    "burstiness_median": "(cv_median - 1) / (cv_median + 1).",
    "share_hours_cv_above_1": "Share of the valid hours whose coefficient of variation exceeds 1, 0 to 1.",
    "share_hours_cv_above_2": "Share of the valid hours whose coefficient of variation exceeds 2, 0 to 1.",
    "busy_hours": f"Number of {_BUSY}.",
    "load_cv": "Coefficient of variation of the requests of busy hours (sample standard deviation over mean).",
    "load_peak_to_median": "Requests of the busiest hour over the median of busy hours.",
    "lag1_spearman": f"{_SPEARMAN} where both are positive, across hours; {_FEW_RANKS}.",
}

_DISPERSION = {
    "window_s": "Width of windows in seconds, which begin at its multiples; at least quantum_s, with two windows or more.",
    "windows": "Number of windows between the first and the last one with requests, empty ones included, those two left out.",
    "mean_requests": "Mean requests of a window.",
    "index_of_dispersion": (
        "Sample variance of the requests of a window over their mean: 1 at every width for a Poisson stream."
    ),
}

_CV_WINDOWS = {
    "time": "Start of a window of 5 minutes that has requests.",
    "requests": "Requests in it.",
    "requests_per_s": "Requests over 300 s, per second.",
    "gaps": "Gaps between consecutive requests within the window, ties included.",
    "mean_gap_s": "Their mean, in seconds.",
    "cv": "Their coefficient of variation (sample standard deviation over mean); null with fewer than 2 gaps.",
}

_FITS = {
    "distribution": (
        "A distribution fitted by maximum likelihood to the positive gaps of the whole trace (across hours, ties left out), from "
        "their histogram."
    ),
    "parameters": "Its parameters by name, as JSON.",
    "shape": (
        "Its shape: of gamma and Weibull 1 is the exponential distribution, less is burstier; of the lognormal distribution the "
        "standard deviation of log(gap)."
    ),
    "scale_s": "Its scale in seconds: the mean of the exponential distribution, the median of the lognormal.",
    "gaps": "Positive gaps it is fitted to.",
    "log_likelihood": "Sum of the logarithms of its density, per second, at all gaps.",
    "aic": "Akaike's criterion, 2 · parameters - 2 · log_likelihood; the lowest fits best.",
    "ks": "Kolmogorov-Smirnov distance: the largest difference of fitted and empirical distribution function, 0 to 1.",
}

_SURVIVAL = {
    "gap_s": "A positive gap, in seconds.",
    "empirical": "Share of the positive gaps of the whole trace (across hours, ties left out) that are longer, 0 to 1.",
    **{
        name: f"The same by the fitted {name} distribution; null where it cannot be fitted."
        for name in ("exponential", "gamma", "weibull", "lognormal")
    },
}


def definitions(by: str) -> Mapping[str, str]:
    """Scalar, or `table.column`, to the sentence that defines it.

    Args:
        by: what the gaps are taken by, the name of the key's column.
    """
    key = {by: "All requests as one." if by == "all" else f"The {by}."}
    tables = {
        "by_key": {**key, **_BY_KEY},
        "by_hour": {**key, **_BY_HOUR},
        "dispersion": _DISPERSION,
        "cv_windows": _CV_WINDOWS,
        "fits": _FITS,
        "survival": _SURVIVAL,
    }
    columns = {f"{table}.{column}": sentence for table, defined in tables.items() for column, sentence in defined.items()}
    return {**_SCALARS, **columns}
