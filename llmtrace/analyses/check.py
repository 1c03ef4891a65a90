"""Is this trace sound: what is in its columns, what could not be read, and which commands can run on it.

`Check` sees requests in canonical form, part by part. What only the reading knows (cells that could not be read, rows out of
order in their file) is counted by the engine; `verdict` puts both together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import polars as pl

from llmtrace.analyses.base import Analysis, State
from llmtrace.result import Result
from llmtrace.schema import COLUMNS, REQUIRED, failed, succeeded
from llmtrace.summaries import clock
from llmtrace.summaries.accumulator import Counter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ABSURD", "NEEDS", "Check", "verdict"]

NEEDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "stats": (),
    "burstiness": (),
    "reuse-time": (("user", "session"), ("model", "session")),
    "hit-dist": (("cached_tokens",),),
    "evolution": (("model",),),
    "latency": (("ttft_s", "duration_s"),),
    "popularity": (("user", "model"),),
    "balance": (("instance",),),
    "sessions": (("user",),),
    "cache": (("block_hashes", "session", "user"),),
    "route": (("block_hashes", "session", "user"),),
}
"""What each command needs beyond the three columns of every trace: of each group, at least one column."""

ABSURD: Mapping[str, tuple[pl.Expr, str]] = {
    "input_tokens": (pl.col("input_tokens").gt(10_000_000), "more than 10,000,000 input tokens"),
    "output_tokens": (pl.col("output_tokens").gt(1_000_000), "more than 1,000,000 output tokens"),
    "ttft_s": (pl.col("ttft_s").gt(3600), "a time to first token above one hour"),
    "duration_s": (pl.col("duration_s").gt(86_400), "a duration above one day"),
    "ttft_s > duration_s": (pl.col("ttft_s") > pl.col("duration_s"), "a first token later than the last one"),
    "no tokens": (succeeded() & pl.col("input_tokens").eq(0) & pl.col("output_tokens").eq(0), "neither input nor output tokens"),
}
"""Readable values that no sane server logs: they stay in every number, and are named here."""

LONG_GAP_S = 3600
LONG_GAP_MEANS = 100
"""A time gap is told if it is at least an hour and a hundred mean gaps long."""
MANY_TIES_RATIO = 0.2
EXCLUSIVE_RATIO = 0.01
UNUSABLE_RATIO = 0.5


@dataclass(frozen=True)
class Check(Analysis):
    """Counts, bounds, duplicates and the clock of a trace."""

    name: ClassVar[str] = "check"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses: ClassVar[frozenset[str]] = frozenset(COLUMNS)

    def partial(self, part: pl.LazyFrame) -> Mapping[str, pl.LazyFrame]:
        """The plan over one part."""
        return {
            "counts": part.select(_counts()),
            "bounds": part.select(_bounds()),
            "duplicates": part.select(pl.struct(pl.all()).hash().alias("row")).select(
                (pl.len() - pl.col("row").n_unique()).cast(pl.Int64).alias("duplicates")
            ),
            **clock.plan(part),
        }

    def combine(self, states: Sequence[State]) -> State:
        """Counts add, bounds widen; a duplicate has its twin's time, and so its part."""
        added = {name: pl.concat([state[name] for state in states]).sum() for name in ("counts", "duplicates")}
        bounds = pl.concat([state["bounds"] for state in states])
        widened = bounds.select(pl.col(name).min() if name.startswith("min ") else pl.col(name).max() for name in bounds.columns)
        return {**added, "bounds": widened, **clock.combine(states)}

    def accumulator(self) -> Counter[State]:
        """A counter of states."""
        return Counter(self.combine)

    def finish(self, state: State) -> Result:
        """What the requests show; `verdict` adds what the reading knows."""
        counts = state["counts"].row(0, named=True)
        rows = counts["rows"]
        grain = clock.grain(state)
        known_status = rows - counts["null status"]
        scalars = {
            "rows": rows,
            "usable": None,
            "bad_rows": None,
            "duplicate_rows": state["duplicates"].item(),
            "out_of_order_rows": None,
            "tie_share": grain.tie_share,
            "quantum_s": grain.quantum_s,
            "failed_requests": counts["failed"] if known_status else None,
            "cached_above_input": None,
            "first_timestamp": grain.first,
            "last_timestamp": grain.last,
        }
        tables = {
            "problems": _found(counts, state["duplicates"].item(), grain),
            "columns": _columns(counts, state["bounds"].row(0, named=True)),
            "gaps": clock.longest(state),
        }
        shown = scalars.keys() | {f"{name}.{column}" for name, table in tables.items() for column in table.columns}
        definitions = {name: text for name, text in DEFINITIONS.items() if name in shown}
        return Result(self.name, {}, scalars, tables, "problems", definitions=definitions)


def verdict(scan: Result, out_of_order_rows: int) -> Result:
    """The whole check: the scan's result, with what could not be read and which commands can run.

    Args:
        scan: the result of `Check`, with the engine's provenance.
        out_of_order_rows: rows earlier than the row before them in their file.
    """
    intake: Mapping[str, int] = scan.provenance["intake"]
    present = scan.provenance["columns"]
    rows_read = intake["rows"]
    problems = pl.concat([_unreadable(intake), _disorder(out_of_order_rows, rows_read), scan.tables["problems"]])
    usable = rows_read > 0 and intake["no_timestamp"] <= UNUSABLE_RATIO * rows_read
    scalars = {
        **scan.scalars,
        "usable": "yes" if usable else "no",
        "bad_rows": intake["bad_rows"],
        "out_of_order_rows": out_of_order_rows,
        "cached_above_input": intake["cached_above_input"] if "cached_tokens" in present else None,
    }
    tables = {
        "problems": problems.select(
            "problem", "rows", (pl.col("rows") / pl.lit(rows_read or None)).alias("rows_ratio"), "advice"
        ),
        "columns": _with_unreadable(scan.tables["columns"], intake, present),
        "commands": _commands(present),
        "gaps": scan.tables["gaps"],
    }
    return replace(scan, scalars=scalars, tables=tables, definitions=DEFINITIONS, shown=("columns", "commands"))


def _counts() -> list[pl.Expr]:
    nulls = [pl.col(name).is_null().sum().cast(pl.Int64).alias(f"null {name}") for name in COLUMNS]
    absurd = [test.fill_null(value=False).sum().cast(pl.Int64).alias(f"absurd {name}") for name, (test, _) in ABSURD.items()]
    lacking = [(pl.col(name).is_null() & succeeded()).sum().cast(pl.Int64).alias(f"lacks {name}") for name in REQUIRED[1:]]
    return [pl.len().cast(pl.Int64).alias("rows"), failed().sum().cast(pl.Int64).alias("failed"), *nulls, *lacking, *absurd]


def _bounds() -> list[pl.Expr]:
    return [
        getattr(pl.col(name), bound)().cast(pl.Float64).alias(f"{bound} {name}")
        for name, column in COLUMNS.items()
        if column.dtype.is_numeric()
        for bound in ("min", "max")
    ]


def _columns(counts: Mapping[str, int], bounds: Mapping[str, float | None]) -> pl.DataFrame:
    rows = [
        (name, _dtype(column.dtype), counts[f"null {name}"], bounds.get(f"min {name}"), bounds.get(f"max {name}"))
        for name, column in COLUMNS.items()
    ]
    schema = {"column": pl.String, "dtype": pl.String, "nulls": pl.Int64, "min": pl.Float64, "max": pl.Float64}
    return pl.DataFrame(rows, schema, orient="row")


def _dtype(dtype: pl.DataType) -> str:
    return "Datetime[us]" if isinstance(dtype, pl.Datetime) else str(dtype)


def _with_unreadable(columns: pl.DataFrame, intake: Mapping[str, int], present: Sequence[str]) -> pl.DataFrame:
    """The columns that the trace has, with their unreadable cells; rows without a time count as nulls of the time."""
    cells = [(name, intake[f"bad_{name}"]) for name in COLUMNS]
    bad = pl.DataFrame(cells, {"column": pl.String, "bad": pl.Int64}, orient="row")
    no_time = pl.when(pl.col("column") == "timestamp").then(intake["no_timestamp"]).otherwise(0)
    return (
        columns.filter(pl.col("column").is_in(list(present)))
        .join(bad, on="column", how="left", maintain_order="left")
        .with_columns(pl.col("nulls") + no_time)
        .select("column", "dtype", "nulls", "bad", "min", "max")
    )


def _commands(present: Sequence[str]) -> pl.DataFrame:
    rows = []
    for command, groups in NEEDS.items():
        lacks = [" or ".join(group) for group in groups if not set(group) & set(present)]
        rows.append((command, "no" if lacks else "yes", ", ".join(lacks) or None))
    return pl.DataFrame(rows, {"command": pl.String, "ready": pl.String, "missing": pl.String}, orient="row")


_PROBLEMS = {"problem": pl.String, "rows": pl.Int64, "advice": pl.String}


def _problems(*rows: tuple[str, int, str]) -> pl.DataFrame:
    return pl.DataFrame([row for row in rows if row[1]], _PROBLEMS, orient="row")


def _unreadable(intake: Mapping[str, int]) -> pl.DataFrame:
    exceed, known = intake["cached_above_input"], intake["rows"]
    mode = "Most likely its input tokens leave the cached ones out: say --cached-mode exclusive."
    few = "A few such rows are errors of the log; cached is cut to the input."
    return _problems(
        ("no readable timestamp", intake["no_timestamp"], "These rows are left out; see --map timestamp=COLUMN and --time-unit."),
        ("cached above input tokens", exceed, mode if exceed > EXCLUSIVE_RATIO * known else few),
        *((f"unreadable {name}", intake[f"bad_{name}"], "Taken as missing.") for name in COLUMNS if name != "timestamp"),
    )


def _disorder(out_of_order_rows: int, rows: int) -> pl.DataFrame:
    reverse = out_of_order_rows > UNUSABLE_RATIO * rows
    advice = "Newest first, it seems. " if reverse else ""
    return _problems(("earlier than the row before", out_of_order_rows, f"{advice}Every command sorts by time first."))


def _found(counts: Mapping[str, int], duplicates: int, grain: clock.Grain) -> pl.DataFrame:
    tied = grain.ties if (grain.tie_share or 0.0) > MANY_TIES_RATIO else 0
    limit_s = max(LONG_GAP_S, LONG_GAP_MEANS * (grain.mean_gap_s or 0.0))
    return _problems(
        ("duplicate rows", duplicates, "Equal in every column to another row; counted in every number."),
        ("arrivals tied with another", tied, _clock_advice(grain)),
        *((f"absurd: {text}", counts[f"absurd {name}"], "Kept in every number.") for name, (_, text) in ABSURD.items()),
        (
            "long gaps in time",
            grain.gaps_above(limit_s),
            "An hour and a hundred mean gaps long, or more: holes in the log? See table gaps.",
        ),
        *((f"no {name} although not failed", counts[f"lacks {name}"], "Left out of its numbers.") for name in REQUIRED[1:]),
    )


def _clock_advice(grain: clock.Grain) -> str:
    if not grain.quantum_s:
        return "All arrivals are at one instant."
    return f"The clock ticks in steps of {grain.quantum_s:g} s: gaps below that are an artefact."


DEFINITIONS: Mapping[str, str] = {
    "rows": "Requests that the filters let through.",
    "usable": "Yes if at least half of the rows read have a readable time.",
    "bad_rows": "Rows read with at least one cell that could not be understood.",
    "duplicate_rows": "Requests equal to an earlier one in every canonical column.",
    "out_of_order_rows": "Rows earlier than the row before them in their file; every command sorts first.",
    "tie_share": "Share of gaps between consecutive arrivals that are zero, 0 to 1.",
    "quantum_s": "The clock's step in s: the modal positive gap if 20 % lie within 1 % of it, else the gaps' common divisor.",
    "failed_requests": "Requests whose status is not ok; unknown without a status.",
    "cached_above_input": "Rows read with more cached than input tokens; unknown without cached tokens.",
    "first_timestamp": "Earliest arrival.",
    "last_timestamp": "Latest arrival.",
    "problems.problem": "What is wrong.",
    "problems.rows": "How many rows (for time gaps: gaps) it concerns.",
    "problems.rows_ratio": "The same over all rows read, 0 to 1.",
    "problems.advice": "What it means and what to do.",
    "columns.column": "A canonical column that the trace has.",
    "columns.dtype": "Its canonical type.",
    "columns.nulls": "Requests without it, unreadable cells included; for the timestamp, rows that are left out.",
    "columns.bad": "Cells that hold something unreadable.",
    "columns.min": "Smallest value, of numbers only.",
    "columns.max": "Largest value, of numbers only.",
    "commands.command": "A command of llmtrace.",
    "commands.ready": "Whether the trace has what the command needs.",
    "commands.missing": "The columns it lacks.",
    "gaps.time": "Last arrival before one of the ten longest gaps.",
    "gaps.gap_s": "Its length in s.",
}
