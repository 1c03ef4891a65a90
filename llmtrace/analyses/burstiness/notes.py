"""What a reader must know to read the numbers of `burstiness` rightly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from llmtrace.analyses.burstiness.tables import LEAST_GAPS, PROTOCOL
from llmtrace.summaries.clock import BITS as GAP_BITS
from llmtrace.summaries.histogram import exact_below, relative_error
from llmtrace.wording import counted, either

if TYPE_CHECKING:
    from llmtrace.analyses.burstiness.tables import Found

__all__ = ["notes", "tie_warning"]

MANY_TIES = 0.1
"""So many gaps of length zero change the coefficient of variation more than anything a reader would look for."""
COARSE_S, COARSE_RATIO = 1e-3, 0.01
"""A clock makes ties of its own if its step is at least so long, or this share of the mean gap; a finer one hardly any."""

_PROTOCOLS = (
    f"Protocols: scalars and by_key are over {PROTOCOL}, ties included; by_hour is over positive gaps within clock hours, but "
    "its lag1_spearman across hours; cv_windows is over all gaps within its windows, ties included; fits and survival are over "
    "the positive gaps of the whole trace, across hours, ties left out; dispersion counts requests, not gaps."
)


def notes(found: Found, jitter: int | None, spread_us: int) -> tuple[str, ...]:
    """Complete sentences, none where there are no requests."""
    if not found.grain.requests:
        return ()
    sentences = [
        tie_warning(found.grain.tie_share, found.grain.quantum_s, found.process["mean_gap_s"]) if jitter is None else "",
        _jitter(found, jitter, spread_us),
        _PROTOCOLS,
        _unknown(found),
        _few(found),
        _ranks(found),
        _histogram(),
    ]
    return tuple(sentence for sentence in sentences if sentence)


def tie_warning(tie_share: float | None, quantum_s: float | None, mean_gap_s: float | None) -> str:
    """What many ties do to the numbers; empty where there are few."""
    if tie_share is None or tie_share < MANY_TIES:
        return ""
    share = f"{tie_share:.1%} of the gaps are zero"
    if not quantum_s or not mean_gap_s:
        return "All requests have the same time: there is no gap to measure."
    if quantum_s < min(COARSE_S, COARSE_RATIO * mean_gap_s):
        return (
            f"{share}, although the clock is fine enough to tell requests apart: they come, or are stamped, in batches. "
            "CV and lag-1 correlations measure these batches first; the dispersion at wider windows does not."
        )
    return (
        f"{share}: the clock ticks in steps of {quantum_s:g} s, and CV, lag-1 correlations, fits and survival are artefacts of "
        f"it. Spread ties with --jitter SEED, or read the dispersion at windows well above {quantum_s:g} s."
    )


def _jitter(found: Found, jitter: int | None, spread_us: int) -> str:
    if jitter is None:
        return ""
    quantum_s = found.grain.quantum_s or 0.0
    short = (
        f" The clock's step is {quantum_s:g} s, but some gaps are as short as {spread_us / 1e6:g} s: clumps remain."
        if spread_us / 1e6 < 0.9 * quantum_s
        else ""
    )
    return (
        f"Requests are spread uniformly over {spread_us / 1e6:g} s from their stamps on (seed {jitter}): gaps shorter than that "
        f"are drawn, not measured. quantum_s and tie_share are those of the stamps.{short}"
    )


def _unknown(found: Found) -> str:
    known = int(found.described["requests"].sum())
    if found.by == "all" or known == found.grain.requests:
        return ""
    if not known:
        return f"The trace names no {found.by}: by_key and by_hour are empty. --by all takes all requests as one."
    unknown = found.grain.requests - known
    which = f"{unknown:,} of {counted(found.grain.requests, 'request')} {either(unknown, 'names', 'name')} no {found.by}"
    return f"{which}: {either(unknown, 'it counts', 'they count')} in the scalars only."


def _few(found: Found) -> str:
    keys = found.described.height
    rated = found.described.filter(pl.col("gaps") >= LEAST_GAPS).height
    if found.by == "all" or rated == keys:
        return ""
    which = f"{rated:,} of {counted(keys, found.by)} that {either(rated, 'has', 'have')} at least {LEAST_GAPS} gaps"
    return f"Shares of keys are over the {which}."


def _ranks(found: Found) -> str:
    bound = found.process["lag1_spearman_bound"]
    if bound is None:
        return ""
    frequent = found.described.filter(pl.col("gaps") >= LEAST_GAPS)["lag1_spearman_bound"].max()
    by_key = f", by_key {_off(frequent)}" if isinstance(frequent, float) and found.by != "all" else ""
    return f"Spearman's coefficients are from binned ranks: that of the whole trace is {_off(bound)}{by_key}."


def _off(bound: float) -> str:
    return f"off by at most {bound:.2g}" if bound else "exact"


def _histogram() -> str:
    return (
        f"Fits are to a histogram of the positive gaps, exact below {exact_below(GAP_BITS) / 1e3:g} ms and within "
        f"{relative_error(GAP_BITS):.2%} above."
    )
