"""What a request took: the columns that `latency` summarises, each with its filter, in whole micro- or nanoseconds.

A server can measure the time to first token (TTFT) of a streamed answer only. So it is taken as not known where it is zero, and
where a request is known not to have streamed, whatever stands there. Requests that failed have no latencies and no tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa
from numba import njit

from llmtrace.schema import failed, streamed, succeeded
from llmtrace.summaries.cells import frozen
from llmtrace.summaries.frames import series_of
from llmtrace.summaries.keys import key
from llmtrace.summaries.loads import Panel

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from llmtrace.analyses.latency.grids import Grid
    from llmtrace.summaries.groups import Integers

    Floats = npt.NDArray[np.float64]
    Columns = tuple[Integers, ...]

__all__ = ["IN_TIME", "LEFT_OUT", "LONGEST_S", "MEASURES", "NEEDS", "PANELS", "SHORT_S", "Measure", "counts", "measured"]

LONGEST_S = 1_000_000_000
"""Longer times are taken as this, so that they fit into whole nanoseconds; what lies between two such times is not known."""
SHORT_S = 300
"""Figures 3b and 4 of the paper show requests that take less than this."""


@dataclass(frozen=True)
class Measure:
    """Something that a request took.

    Attributes:
        column: the integer column that is summarised.
        steps: how many of its steps are one second (of the share: the whole).
        meaning: what it is, and of which requests.
    """

    column: str
    steps: float
    meaning: str


_FIRST_TO_LAST = "of requests with a TTFT above zero and a duration that is not shorter"
_TIMED = f"{_FIRST_TO_LAST}, up to {LONGEST_S:,} s"
MEASURES: Mapping[str, Measure] = {
    "ttft_s": Measure("ttft_us", 1e6, "time to first token, of requests with a TTFT above zero"),
    "duration_s": Measure("duration_us", 1e6, "arrival to last token, of requests with a duration above zero"),
    "timed_duration_s": Measure("timed_duration_us", 1e6, f"arrival to last token, {_TIMED}"),
    "decode_s": Measure("decode_us", 1e6, f"first to last token, {_TIMED}"),
    "prefill_share": Measure("prefill_millionths", 1e6, f"TTFT over duration, {_FIRST_TO_LAST} and is below {SHORT_S} s"),
    "tpot_s": Measure("tpot_ns", 1e9, f"decode time per output token after the first, {_TIMED}, and two output tokens or more"),
}
"""By the name that tables have for it, in the order of tables."""
IN_TIME = ("ttft_s", "duration_s", "tpot_s")
"""Those that are described per interval."""
PANELS: Mapping[str, Panel] = {
    "load_ttft": Panel("ttft_us", "input_tokens"),
    "load_decode": Panel("rest_us", "output_tokens"),
    "ttft": Panel("ttft_us"),
    "tpot": Panel("tpot_ns"),
}
"""What is counted by the load of the instance."""
LEFT_OUT = ("zero_ttft", "zero_duration", "late_ttft", "too_long")
"""What keeps a latency out of numbers, or is cut."""

NEEDS: Mapping[str, pl.Expr] = {
    "timestamp": pl.col("timestamp").to_physical(),
    **{name: pl.when(succeeded()).then(name).fill_null(-1).alias(name) for name in ("input_tokens", "output_tokens")},
    "ttft_s": pl.when(succeeded() & streamed()).then("ttft_s").fill_null(float("nan")),
    "duration_s": pl.when(succeeded()).then("duration_s").fill_null(float("nan")),
    "model": pl.col("model"),
    "model_key": key("model"),
    "instance_key": key("instance"),
}
"""What `measured` takes of a part."""

_COLUMNS = (
    *(measure.column for measure in MEASURES.values()),
    "rest_us",
    "grid_duration_us",
    "grid_ttft_us",
    "tokens",
    "cell",
)
_TTFT, _DURATION, _TIMED_DURATION, _DECODE, _PREFILL, _TPOT, _REST, _GRID_DURATION, _GRID_TTFT, _TOKENS, _CELL = range(
    len(_COLUMNS)
)
_MILLION = 1_000_000
_SHORT_US = SHORT_S * _MILLION
_LARGEST, _LARGEST_EXACT = (1 << 63) - 1, 1 << 53


def counts(part: pl.LazyFrame) -> pl.LazyFrame:
    """One row: how many requests there are, and of how many what is known."""
    flags = {
        "known_status": pl.col("status").is_not_null(),
        "failed": failed(),
        "known_ttft": succeeded() & pl.col("ttft_s").is_not_null(),
        "known_duration": succeeded() & pl.col("duration_s").is_not_null(),
        "known_instance": pl.col("instance").is_not_null(),
        "not_streamed": succeeded() & ~streamed() & pl.col("ttft_s").is_not_null(),
    }
    return part.select(
        pl.len().cast(pl.Int64).alias("requests"), *(flag.sum().cast(pl.Int64).alias(name) for name, flag in flags.items())
    )


def measured(frame: pl.DataFrame, grid: Grid) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What is summarised of the requests of a part.

    Args:
        frame: the columns of `NEEDS`.
        grid: which cells there are.

    Returns:
        The columns of measures, panels and grids, Int64 and -1 where a request does not count; `tokens`, input and output
        together, 0 where neither is known; `cell`; `timestamp` and the keys. And a row that counts `LEFT_OUT`.
    """
    names = ("input_tokens", "output_tokens", "ttft_s", "duration_s")
    # One array for all would be given back to the system after each part, and be filled page by page anew.
    columns = tuple(np.empty(frame.height, np.int64) for _ in _COLUMNS)
    left_out = np.zeros(len(LEFT_OUT), np.int64)
    cells = grid.input_step, grid.input_bins, grid.output_step, grid.output_bins
    _measure(frozen(*(frame[name].to_numpy() for name in names)), cells, columns, left_out)
    # Through Arrow, which does not copy.
    made = [series_of(name, pa.array(column)) for name, column in zip(_COLUMNS, columns, strict=True)]
    kept = frame.select("timestamp", "input_tokens", "output_tokens", "model_key", "instance_key")
    return kept.with_columns(made).cast({"cell": pl.UInt64}), pl.DataFrame(dict(zip(LEFT_OUT, left_out, strict=True)))


@njit(nogil=True, cache=True)
def _microseconds(seconds: float) -> int:
    """Rounded; -1 where not known or negative."""
    return int(min(seconds, LONGEST_S) * 1e6 + 0.5) if seconds >= 0 else -1


@njit(nogil=True, cache=True, error_model="numpy")
def _quotient(numerator: int, denominator: int) -> int:
    """The quotient of positive integers, rounded down. A float divides in half the time, and as exactly if it holds both."""
    if numerator <= _LARGEST_EXACT:
        return int(np.float64(numerator) / np.float64(denominator))
    return numerator // denominator


@njit(nogil=True, cache=True)
def _measure(
    given: tuple[Integers, Integers, Floats, Floats], grid: tuple[int, int, int, int], columns: Columns, left_out: Integers
) -> None:
    inputs, outputs, ttfts, durations = given
    input_step, input_bins, output_step, output_bins = grid
    input_end, output_end = input_step * input_bins, output_step * output_bins
    for row in range(inputs.size):
        first, last = _microseconds(ttfts[row]), _microseconds(durations[row])
        sent, made = inputs[row], outputs[row]
        is_cut = ttfts[row] > LONGEST_S or durations[row] > LONGEST_S
        timed = 0 < first <= last and not is_cut
        columns[_TTFT][row] = first if first > 0 else -1
        columns[_DURATION][row] = last if last > 0 else -1
        columns[_REST][row] = max(last - first, 0) if first > 0 and last > 0 and not is_cut else -1
        columns[_TIMED_DURATION][row] = last if timed else -1
        columns[_DECODE][row] = last - first if timed else -1
        columns[_PREFILL][row] = max(_quotient(first * _MILLION + (last >> 1), last), 1) if timed and last < _SHORT_US else -1
        columns[_TPOT][row] = _quotient((last - first) * 1000 + (made - 1 >> 1), made - 1) if timed and made > 1 else -1
        columns[_TOKENS][row] = max(sent, 0) + min(max(made, 0), _LARGEST - max(sent, 0))
        is_inside = 0 <= sent < input_end and 0 <= made < output_end
        columns[_CELL][row] = _quotient(sent, input_step) * output_bins + _quotient(made, output_step) + 1 if is_inside else 0
        columns[_GRID_DURATION][row] = last if sent > 0 and made > 0 and 0 < last < _SHORT_US else -1
        columns[_GRID_TTFT][row] = first if sent >= 0 and made >= 0 and 0 < first < _SHORT_US else -1
        left_out[0] += first == 0
        left_out[1] += last == 0
        left_out[2] += first > last > 0
        left_out[3] += is_cut
