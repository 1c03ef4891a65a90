"""What a reader of `hit-dist` must know besides the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from llmtrace.analyses.hit_dist import latency, lengths, shape
from llmtrace.summaries.histogram import relative_error
from llmtrace.summaries.hit_lengths import BITS
from llmtrace.wording import counted, either

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llmtrace.analyses.hit_dist.tables import Found
    from llmtrace.result import Scalar

__all__ = ["notes"]

_APART = 0.05
"""Two ratios that are further apart are worth a word."""
_DEEP = 0.5
"""So is a valley that is deeper."""


def notes(found: Found, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """The sentences that apply, the weightiest first; none where there are no requests."""
    scalars, skip = found.scalars, parameters["skip"]
    if not scalars["requests"]:
        return ()
    sentences = [_unlogged(scalars), _left_out(scalars), _skipped(skip)]
    if scalars["measured_requests"]:
        sentences += [
            _silent(found.tables["by_model"]),
            _ends(scalars, parameters),
            _apart(scalars),
            _humps(scalars, found.tables["by_model"]),
            "" if "ttft" in skip else _latency(scalars),
            _exact(scalars),
        ]
    return tuple(sentence for sentence in sentences if sentence)


def _unlogged(scalars: Mapping[str, Scalar]) -> str:
    if not scalars["measured_requests"]:
        return (
            "No request has a hit ratio: none of those that did not fail and have input logs cached tokens. "
            "llmtrace sessions and llmtrace cache estimate reuse without them."
        )
    unlogged = _count(scalars, "unlogged_requests")
    if not unlogged:
        return ""
    which = f"{unlogged:,} of {counted(_count(scalars, 'requests'), 'request')} {either(unlogged, 'does', 'do')}"
    return f"{which} not log cached tokens: {either(unlogged, 'it is', 'they are')} left out, not taken as zero."


def _left_out(scalars: Mapping[str, Scalar]) -> str:
    failed, no_input = _count(scalars, "failed_requests"), _count(scalars, "no_input_requests")
    parts = [f"{counted(failed, 'request')} that failed"] if failed else []
    parts += [f"{counted(no_input, 'request')} without input tokens"] if no_input else []
    return f"Left out besides: {' and '.join(parts)}." if parts else ""


def _skipped(skip: Sequence[str]) -> str:
    return f"Left out with --skip: {', '.join(dict.fromkeys(skip))}; what rests on that is empty or null." if skip else ""


def _silent(by_model: pl.DataFrame) -> str:
    """Models that never hit: a cache that is off, or a log that writes 0 for what it does not know."""
    rated = by_model.drop_nulls("model").filter(pl.col("measured_requests") > lengths.FEWEST)
    silent = rated.filter(pl.col("cached_tokens") == 0).height
    if not silent:
        return ""
    which = f"{silent:,} of {counted(rated.height, 'model')} with more than {lengths.FEWEST} requests"
    return (
        f"{which} {either(silent, 'logs', 'log')} no cached token at all: the cache is off there, or the log writes 0 for not "
        f"known. If so, leave {either(silent, 'it', 'them')} out with --where."
    )


def _ends(scalars: Mapping[str, Scalar], parameters: Mapping[str, Any]) -> str:
    return (
        f"{scalars['share_zero']:.1%} of the requests have a hit ratio of at most {parameters['zero_at']:g} (--zero-at), "
        f"{scalars['share_full']:.1%} one of at least {parameters['full_at']:g} (--full-at)."
    )


def _apart(scalars: Mapping[str, Scalar]) -> str:
    mean, tokens = scalars["mean_request_hit_ratio"], scalars["token_hit_ratio"]
    if not isinstance(mean, float) or not isinstance(tokens, float) or abs(mean - tokens) < _APART:
        return ""
    longer = "more" if tokens > mean else "less"
    return (
        f"The mean of ratios is {mean:.3f}, cached over input tokens {tokens:.3f}: long requests hit {longer}. Compute saved "
        "follows tokens, what users feel follows requests."
    )


def _humps(scalars: Mapping[str, Scalar], by_model: pl.DataFrame) -> str:
    """Where the two humps are, and whether models have two as well or only differ from each other."""
    depth, coefficient = scalars["valley_depth"], scalars["bimodality"]
    if depth is None or coefficient is None:
        return ""
    humps = (
        f"Two humps, at {scalars['lower_mode']:.3f} and {scalars['upper_mode']:.3f}: the valley between them lies {depth:.0%} "
        f"below the lesser one, which has {scalars['lesser_mode_share']:.1%} of the requests; Sarle's coefficient is "
        f"{coefficient:.3f} (uniform: {shape.UNIFORM:.3f})."
    )
    return f"{humps}{_alone(by_model)}"


def _alone(by_model: pl.DataFrame) -> str:
    """How many of the known models have two humps; one whose ratios are all alike has a single one."""
    models = by_model.drop_nulls("model").filter(pl.col("measured_requests") > 0)
    few = models.filter(pl.col("measured_requests") <= lengths.FEWEST).height
    if few == models.height:
        return ""
    alone = models.filter(pl.col("bimodality") > shape.UNIFORM, pl.col("valley_depth") > _DEEP).height
    which = f"{alone:,} of {counted(models.height, 'model')} {either(alone or models.height, 'has', 'have')}"
    untold = f"; {few:,} {either(few, 'has', 'have')} {lengths.FEWEST} measured requests or fewer, too few to tell" if few else ""
    return f" Taken alone, {which} a coefficient above {shape.UNIFORM:.3f} and a valley deeper than {_DEEP:.0%}{untold}."


def _latency(scalars: Mapping[str, Scalar]) -> str:
    timed, measured = _count(scalars, "ttft_requests"), _count(scalars, "measured_requests")
    if not timed:
        return "No request with a hit ratio has a usable TTFT: what rests on that is empty or null."
    which = f"{timed:,} of {counted(measured, 'request')} with a hit ratio {either(timed, 'has', 'have')} a usable TTFT"
    if not scalars["compared_requests"]:
        return f"{which}: no two cells of one length have {latency.FEWEST} of them each, with and without hits, to be compared."
    return (
        f"{which} (those that do not stream have none). What hits save at equal length is no effect of hits alone: models and "
        "load differ too."
    )


def _exact(scalars: Mapping[str, Scalar]) -> str:
    ttft = f", TTFT within {relative_error(BITS):.1%}" if scalars["ttft_requests"] else ""
    ratios = "means of ratios within 1e-9, their percentiles within 0.0005 (by model 0.005)"
    return f"Counts, sums and shares are exact, {ratios}{ttft}."


def _count(scalars: Mapping[str, Scalar], name: str) -> int:
    """A scalar that is a count; where there is nothing to count, 0."""
    value = scalars[name]
    return value if isinstance(value, int) else 0
