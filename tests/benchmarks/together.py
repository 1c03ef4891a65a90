"""How long several analyses take in one scan of a trace, against a scan each.

    python tests/benchmarks/together.py TRACE [--runs 3] [--analyses Stats HitDist ...]

Every run is a process of its own. Printed are the seconds from its start to its end, those of `llmtrace.run` in it, and the peak
memory: the medians of all runs, which go in turn. What one scan saves is told with and without the start of the program, since
that alone would save something.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from typing import TypeAlias

import llmtrace
from llmtrace import cli

ANALYSES = ("Stats", "HitDist", "Evolution", "Latency", "Popularity")
Measured: TypeAlias = tuple[float, float, float]


def run(trace: str, names: list[str]) -> None:
    """Run analyses, with the allocators set as the command line sets them, and print seconds and peak gigabytes."""
    cli.set_up_libraries()
    begin = time.perf_counter()
    llmtrace.run(llmtrace.open_trace(trace), [getattr(llmtrace, name)() for name in names])
    seconds = time.perf_counter() - begin
    kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "darwin" else 1)
    sys.stdout.write(f"{seconds} {kibibytes * 1024 / 1e9}\n")


def measured(trace: str, names: list[str]) -> Measured:
    """Seconds of the process, seconds of the scan, and peak gigabytes."""
    begin = time.perf_counter()
    program = [sys.executable, __file__, trace, "--here", "--analyses", *names]
    done = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True)
    seconds = time.perf_counter() - begin
    scan, gigabytes = map(float, done.stdout.split())
    return seconds, scan, gigabytes


def medians(runs: list[Measured]) -> Measured:
    """The median of each number."""
    seconds, scan, gigabytes = (statistics.median(values) for values in zip(*runs, strict=True))
    return seconds, scan, gigabytes


def main() -> None:
    """Measure in turn and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--analyses", nargs="+", default=list(ANALYSES), help="names of the package's analyses")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        run(options.trace, options.analyses)
        return
    groups = [[name] for name in options.analyses] + [options.analyses]
    rounds = [[measured(options.trace, names) for names in groups] for _ in range(options.runs)]
    *alone, together = [medians(list(runs)) for runs in zip(*rounds, strict=True)]
    for names, (seconds, scan, gigabytes) in zip(groups, [*alone, together], strict=True):
        label = names[0] if len(names) == 1 else "together"
        sys.stdout.write(f"{label:12} {seconds:7.2f} s, of which the scan {scan:7.2f} s  {gigabytes:5.2f} GB\n")
    shares = [together[place] / sum(one[place] for one in alone) for place in (0, 1)]
    sys.stdout.write(f"together takes {shares[0]:.2f} of the sum, {shares[1]:.2f} without the start of the program\n")


if __name__ == "__main__":
    main()
