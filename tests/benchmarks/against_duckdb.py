"""How long llmtrace takes for a command, and how long DuckDB for the numbers at its heart, in turn on the same trace.

    python tests/benchmarks/against_duckdb.py COMMAND TRACE [--runs 3] [--whole] [--within] [OPTION OF THE COMMAND ...]

Each run is a process of its own, from start to exit. A run of DuckDB computes what somebody would write by hand, a fraction of
what the command gives. Printed are seconds and peak memory of every run, and the ratio of the medians: how many times as fast
llmtrace is. Single times depend on the machine and on what else it does; the ratio hardly does.

With --within, both are timed inside one process instead, once it has imported them: the analysis from opening the trace to its
result, and DuckDB's query. Of the options of the command, --skip is heeded then.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Measured: TypeAlias = tuple[float, float]

RATES = """
    SELECT time_bucket(INTERVAL 1 HOUR, timestamp) AS hour, count(*), sum(input_tokens), sum(output_tokens), sum(cached_tokens),
           count(DISTINCT "user"), count(DISTINCT model)
    FROM {trace} GROUP BY hour"""
LENGTHS = """
    SELECT quantile_cont(input_tokens, [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99]),
           quantile_cont(output_tokens, [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99])
    FROM {trace}"""
GAPS_BY_MODEL = """
    WITH gaps AS (
        SELECT model, timestamp, epoch_us(timestamp) - epoch_us(lag(timestamp) OVER arrivals) AS gap
        FROM {trace} WINDOW arrivals AS (PARTITION BY model ORDER BY timestamp)),
    pairs AS (
        SELECT model, gap, lag(gap) OVER (PARTITION BY model ORDER BY timestamp) AS before FROM gaps)
    SELECT model, count(gap), avg(gap), stddev_samp(gap) / avg(gap), corr(gap, before) FROM pairs GROUP BY model"""
GAPS_BY_USER_AND_MODEL = """
    WITH gaps AS (
        SELECT epoch_us(timestamp) - epoch_us(lag(timestamp) OVER (PARTITION BY "user", model ORDER BY timestamp)) AS gap
        FROM {trace})
    SELECT quantile_cont(gap, [0.5, 0.9, 0.99]), avg((gap <= 100000)::INT), avg((gap <= 10000000)::INT) FROM gaps"""
HITS = """
    SELECT floor(50.0 * cached_tokens / input_tokens), count(*), sum(input_tokens) FROM {trace} GROUP BY 1"""
HITS_BY_MODEL = """
    SELECT model, count(*), avg(least(cached_tokens / input_tokens, 1.0)), sum(cached_tokens) / sum(input_tokens),
           median(cached_tokens / input_tokens)
    FROM {trace} WHERE cached_tokens IS NOT NULL AND input_tokens > 0 GROUP BY model"""
HITS_BY_USER = """
    SELECT "user", count(*), avg(least(cached_tokens / input_tokens, 1.0)), sum(cached_tokens) / sum(input_tokens)
    FROM {trace} WHERE cached_tokens IS NOT NULL AND input_tokens > 0 GROUP BY 1"""
TTFT_BY_HIT = """
    SELECT input_tokens // 2000, floor(10.0 * cached_tokens / input_tokens), count(*), quantile_cont(ttft_s, [0.5, 0.95])
    FROM {trace} WHERE ttft_s > 0 AND ttft_s < 300 AND input_tokens BETWEEN 1 AND 31999 AND cached_tokens IS NOT NULL
    GROUP BY ALL HAVING count(*) >= 200"""
LENGTHS_BY_DAY = """
    SELECT date_trunc('day', timestamp), quantile_cont(input_tokens, [0.1, 0.25, 0.5, 0.75, 0.9]),
           quantile_cont(output_tokens, [0.1, 0.25, 0.5, 0.75, 0.9]), count(DISTINCT model)
    FROM {trace} GROUP BY 1"""
MIX_BY_DAY = """
    SELECT date_trunc('day', timestamp), model, count(*), sum(input_tokens + output_tokens) FROM {trace} GROUP BY ALL"""
COHORTS = """
    WITH users AS (
        SELECT min(timestamp) AS first, median(input_tokens) AS input, median(output_tokens) AS output
        FROM {trace} WHERE input_tokens > 0 AND output_tokens > 0 GROUP BY "user" HAVING count(*) > 10)
    SELECT date_trunc('day', first), count(*), quantile_cont(input, [0.1, 0.25, 0.5, 0.75, 0.9]),
           quantile_cont(output, [0.1, 0.25, 0.5, 0.75, 0.9])
    FROM users GROUP BY 1"""
SWITCHING = """
    WITH counts AS (
        SELECT date_trunc('day', timestamp) AS day, "user", model, count(*) AS requests FROM {trace} GROUP BY ALL),
    main AS (SELECT day, "user", arg_max(model, requests) AS model FROM counts GROUP BY ALL)
    SELECT later.day, count(*), count(*) FILTER (later.model <> earlier.model)
    FROM main AS later JOIN main AS earlier ON later."user" = earlier."user" AND later.day = earlier.day + INTERVAL 1 DAY
    GROUP BY later.day"""
LATENCIES_BY_MODEL = """
    SELECT model, quantile_cont(ttft_s, [0.5, 0.9, 0.99]), quantile_cont(duration_s, [0.5, 0.9, 0.99]),
           quantile_cont(ttft_s / duration_s, 0.5)
    FROM {trace} WHERE ttft_s > 0 AND ttft_s <= duration_s GROUP BY model"""
LATENCY_BY_TOKENS = """
    SELECT input_tokens // 2000 AS input, output_tokens // 200 AS output, count(*), median(duration_s), median(ttft_s)
    FROM {trace} WHERE duration_s < 300 AND input_tokens < 32000 AND output_tokens < 8000
    GROUP BY input, output HAVING count(*) >= 50"""
LATENCY_BY_LOAD = """
    WITH loads AS (
        SELECT instance, date_trunc('second', timestamp) AS second, sum(input_tokens + output_tokens) AS load
        FROM {trace} GROUP BY instance, second)
    SELECT floor(9 * log10(load)) AS x, floor(5 * log10(input_tokens)) AS y, count(*), quantile_cont(ttft_s, 0.9)
    FROM {trace} AS trace JOIN loads ON trace.instance = loads.instance AND date_trunc('second', timestamp) = second
    GROUP BY x, y HAVING count(*) >= 30"""
USERS_OF_MODELS = """
    WITH pairs AS (SELECT model, "user", count(*) AS n FROM {trace} GROUP BY ALL),
    reached AS (
        SELECT model, n, sum(n) OVER (PARTITION BY model) AS total,
               sum(n) OVER (PARTITION BY model ORDER BY n DESC ROWS UNBOUNDED PRECEDING) AS so_far
        FROM pairs)
    SELECT model, count(*), count(*) FILTER (so_far - n < 0.9 * total), max(n) FROM reached GROUP BY model"""
MODELS = """
    SELECT model, count(*), sum(input_tokens), sum(output_tokens), median(input_tokens), median(output_tokens)
    FROM {trace} GROUP BY model"""
USERS = """
    WITH users AS (
        SELECT "user", count(*) AS n, count(DISTINCT model) AS models, sum(input_tokens + output_tokens) AS tokens,
               median(input_tokens) AS input, median(output_tokens) AS output
        FROM {trace} GROUP BY "user")
    SELECT floor(8 * log10(n)), floor(8 * log10(models)), count(*), sum(tokens), avg(input), avg(output)
    FROM users GROUP BY ALL"""
BALANCE = """
    WITH loads AS (
        SELECT date_trunc('minute', timestamp) AS minute, instance, count(*) AS n, sum(input_tokens + output_tokens) AS load
        FROM {trace} GROUP BY ALL),
    minutes AS (
        SELECT minute, count(*) AS instances, max(load) / avg(load) AS imbalance, sum(load) ^ 2 / count(*) / sum(load ^ 2) AS jain
        FROM loads GROUP BY minute HAVING count(*) >= 2 AND sum(n) >= 10)
    SELECT date_trunc('hour', minute), median(instances), avg(imbalance), avg(jain) FROM minutes GROUP BY 1"""
COPIES = """
    WITH copies AS (
        SELECT time_bucket(INTERVAL 15 MINUTE, timestamp) AS bucket, model, "user", instance, count(*) AS n,
               max(input_tokens + output_tokens) AS largest
        FROM {trace} GROUP BY ALL),
    keys AS (
        SELECT bucket, model, "user", sum(n) AS n, count(*) AS copies, sum(largest) AS physical, max(largest) AS logical
        FROM copies GROUP BY ALL)
    SELECT bucket, sum(n), sum(copies) / count(*), sum(physical) / sum(logical) FROM keys GROUP BY bucket"""
HITS_BY_INSTANCE = """
    WITH hours AS (
        SELECT "user", date_trunc('hour', timestamp) AS hour, count(*) AS n FROM {trace} GROUP BY 1, 2 HAVING count(*) >= 200
        QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY n DESC, hour) = 1)
    SELECT "user", instance, count(*), sum(cached_tokens) / sum(input_tokens)
    FROM (SELECT *, date_trunc('hour', timestamp) AS hour FROM {trace}) JOIN hours USING ("user", hour) GROUP BY ALL"""
QUERIES = {
    "stats": (RATES, LENGTHS),
    "burstiness": (GAPS_BY_MODEL,),
    "reuse-time": (GAPS_BY_USER_AND_MODEL,),
    "hit-dist": (HITS,),
    "evolution": (LENGTHS_BY_DAY,),
    "latency": (LATENCIES_BY_MODEL, LATENCY_BY_TOKENS, LATENCY_BY_LOAD),
    "popularity": (USERS_OF_MODELS, MODELS, USERS),
    "balance": (BALANCE, COPIES),
}
WHOLE = {
    "hit-dist": (HITS, HITS_BY_MODEL, HITS_BY_USER, TTFT_BY_HIT),
    "evolution": (LENGTHS_BY_DAY, MIX_BY_DAY, COHORTS, SWITCHING),
    "balance": (BALANCE, COPIES, HITS_BY_INSTANCE, LATENCY_BY_LOAD),
}
"""Where the numbers at the heart of a command are a small part of what it reads, queries for what it gives besides."""


def query(command: str, trace: str, *, whole: bool) -> None:
    """Run DuckDB's queries for a command, or those for the whole of it."""
    import duckdb

    connection = duckdb.connect()
    for text in WHOLE.get(command, QUERIES[command]) if whole else QUERIES[command]:
        connection.execute(text.format(trace=f"'{trace}/**/*.parquet'")).fetchall()


def measured(program: list[str]) -> Measured:
    """Seconds and peak gigabytes of a process.

    Raises:
        RuntimeError: if it fails.
    """
    begin = time.perf_counter()
    process = subprocess.Popen(program, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    if status:
        raise RuntimeError(f"{' '.join(program)} failed")
    kibibytes = usage.ru_maxrss / (1024 if sys.platform == "darwin" else 1)
    return seconds, kibibytes * 1024 / 1e9


def within(command: str, trace: str, runs: int, *, skip: Sequence[str]) -> list[tuple[Measured, Measured]]:
    """Seconds of the analysis behind a command and of DuckDB's queries, in turn, after a run that is not counted.

    Allocators are set as the command line sets them.
    """
    import llmtrace
    from llmtrace import cli

    cli.set_up_libraries()
    from llmtrace.analyses.registry import ANALYSES

    kind: Any = type(ANALYSES[command][0])
    pairs = []
    for _ in range(runs + 1):
        begin = time.perf_counter()
        llmtrace.run(llmtrace.open_trace(trace), [kind(skip=tuple(skip)) if skip else kind()])
        middle = time.perf_counter()
        query(command, trace, whole=False)
        pairs.append(((middle - begin, math.nan), (time.perf_counter() - middle, math.nan)))
    return pairs[1:]


def _told(run: Measured) -> str:
    seconds, gigabytes = run
    return f"  {seconds:7.2f} s" + ("" if math.isnan(gigabytes) else f" {gigabytes:5.2f} GB")


def main() -> None:
    """Measure in turn and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=QUERIES)
    parser.add_argument("trace", help="a folder of Parquet files with the canonical columns")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--whole", action="store_true", help="have DuckDB compute what the command gives besides, too")
    parser.add_argument("--within", action="store_true", help="time both within one process, which has imported them")
    parser.add_argument("--query", action="store_true", help=argparse.SUPPRESS)
    options, more = parser.parse_known_args()
    if options.query:
        query(options.command, options.trace, whole=options.whole)
        return
    ours = [sys.executable, "-m", "llmtrace", options.command, options.trace, "--format", "json", "--quiet", *more]
    theirs = [sys.executable, __file__, options.command, options.trace, "--query", *(["--whole"] if options.whole else [])]
    if options.within:
        skip = [value for option, value in pairwise(more) if option == "--skip"]
        pairs = within(options.command, options.trace, options.runs, skip=skip)
    else:
        pairs = [(measured(ours), measured(theirs)) for _ in range(options.runs)]
    for name, runs in zip(("llmtrace", "duckdb"), zip(*pairs, strict=True), strict=True):
        sys.stdout.write(f"{name:9}" + "".join(map(_told, runs)) + "\n")
    mine, other = (statistics.median(seconds for seconds, _ in runs) for runs in zip(*pairs, strict=True))
    sys.stdout.write(f"{options.command}: {other / mine:.2f} times as fast as DuckDB\n")


if __name__ == "__main__":
    main()
