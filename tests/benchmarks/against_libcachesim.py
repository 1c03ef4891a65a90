"""How many requests a second llmtrace and libCacheSim's Python binding replay, in turn on the same stream, on one thread.

    python tests/benchmarks/against_libcachesim.py [POLICY ...] [--runs 5] [--capacities 10000 100000]

The stream has 4 million uses of 1 million objects of one size, Zipf(0.9). Both sides take it as it lies before them, the binding
a file of its own format, llmtrace arrays, and both give a number of hits, which must be the same. Neither compiling nor writing
the file counts. Printed are, for each policy and capacity, the medians of millions of requests per second of processor time, and
of how many times as fast llmtrace is, run by run, with the least and the greatest. Single speeds depend on the machine and on
what else it does; the ratio of neighbours hardly does.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from llmtrace.replay.cache.replay import replay
from llmtrace.replay.cache.stream import of_objects

if TYPE_CHECKING:
    from collections.abc import Callable

    from llmtrace.replay.cache.stream import Stream

USES, OBJECTS = 4_000_000, 1_000_000
NAMES = {
    "fifo": "FIFO",
    "lru": "LRU",
    "sieve": "Sieve",
    "arc": "ARC",
    "s3fifo": "S3FIFO",
    "gdsf": "GDSF",
    "belady": "Belady",
}


def zipf() -> Stream:
    """The stream."""
    cumulative = np.cumsum(1 / np.arange(1, OBJECTS + 1) ** 0.9)
    ids = np.searchsorted(cumulative / cumulative[-1], np.random.default_rng(1).random(USES))
    return of_objects(ids.astype(np.uint32), np.ones(USES, np.int32), OBJECTS)


def write(stream: Stream, path: Path) -> None:
    """The stream as libCacheSim reads it."""
    rows = np.zeros(USES, [("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])
    rows["time"], rows["id"], rows["size"] = np.arange(USES) // 1000, stream.ids.astype(np.uint64) + 1, 1
    rows["next"] = np.where(stream.nexts < 0, -1, stream.nexts.astype(np.int64) + 1)
    rows.tofile(path)


def theirs(path: Path, policy: str, capacity: int) -> Callable[[], int]:
    """A replay by libCacheSim that gives the number of hits."""
    # Not an import at the top: type checks and doctests pass where it is not installed.
    libcachesim: Any = importlib.import_module("libcachesim")
    reader = libcachesim.TraceReader(
        str(path),
        trace_type=libcachesim.TraceType.ORACLE_GENERAL_TRACE,
        reader_init_params=libcachesim.ReaderInitParam(ignore_obj_size=True),
    )
    cache: Any = getattr(libcachesim, NAMES[policy])(capacity)
    return lambda: round((1 - cache.process_trace(reader)[0]) * USES)


def measured(run: Callable[[], int]) -> tuple[int, float]:
    """What a replay gives, and its seconds of processor time."""
    begin = time.process_time()
    hits = run()
    return hits, time.process_time() - begin


def compare(stream: Stream, path: Path, policy: str, capacity: int) -> tuple[float, float]:
    """Millions of requests per second of both sides, theirs first."""
    found, seconds = measured(theirs(path, policy, capacity))
    ours, our_seconds = measured(lambda: int((replay(stream, policy, capacity) >= 0).sum()))
    if ours != found:
        message = f"{policy} at {capacity}: libCacheSim has {found} hits, llmtrace {ours}"
        raise AssertionError(message)
    return USES / seconds / 1e6, USES / our_seconds / 1e6


def main() -> None:
    """Measure in turn and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policies", nargs="*", default=[], metavar="POLICY", help=f"of {', '.join(NAMES)}; all by default")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--capacities", type=int, nargs="+", default=[10_000, 100_000])
    options = parser.parse_args()
    stream = zipf()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "zipf.oracleGeneral.bin"
        write(stream, path)
        for policy in options.policies or NAMES:
            replay(stream, policy, options.capacities[0])
            for capacity in options.capacities:
                speeds = [compare(stream, path, policy, capacity) for _ in range(options.runs)]
                slow, fast = (statistics.median(side) for side in zip(*speeds, strict=True))
                ratios = sorted(ours / their for their, ours in speeds)
                sys.stdout.write(
                    f"{policy:7} {capacity:8,}  libCacheSim {slow:6.2f}  llmtrace {fast:6.2f} M requests/s"
                    f"  {statistics.median(ratios):5.2f} times ({ratios[0]:.2f} to {ratios[-1]:.2f})\n"
                )
                sys.stdout.flush()


if __name__ == "__main__":
    main()
