"""Characterize an LLM-serving workload from its request trace.

The library under the command line. Names are imported when they are first used, so that importing the package costs nothing.

    import llmtrace

    trace = llmtrace.open_trace("trace.parquet")
    stats, hits = llmtrace.run(trace, [llmtrace.Stats(), llmtrace.HitDist()])
    print(stats.scalars["requests"], hits.tables["by_model"])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmtrace.analyses.balance import Balance
    from llmtrace.analyses.burstiness import Burstiness
    from llmtrace.analyses.evolution import Evolution
    from llmtrace.analyses.hit_dist import HitDist
    from llmtrace.analyses.latency import Latency
    from llmtrace.analyses.popularity import Popularity
    from llmtrace.analyses.reuse_time import ReuseTime
    from llmtrace.analyses.stats import Stats
    from llmtrace.engine.local import run
    from llmtrace.errors import InputError, LlmtraceError, MissingColumnError, OutputError, UsageError
    from llmtrace.formats.layout import ReadOptions
    from llmtrace.result import Result
    from llmtrace.trace import Filters, Trace, open_trace

__all__ = [
    "Balance",
    "Burstiness",
    "Evolution",
    "Filters",
    "HitDist",
    "InputError",
    "Latency",
    "LlmtraceError",
    "MissingColumnError",
    "OutputError",
    "Popularity",
    "ReadOptions",
    "Result",
    "ReuseTime",
    "Stats",
    "Trace",
    "UsageError",
    "open_trace",
    "run",
]
__version__ = "0.1.0"

_HOMES = {
    "llmtrace.analyses.balance": ("Balance",),
    "llmtrace.analyses.burstiness": ("Burstiness",),
    "llmtrace.analyses.evolution": ("Evolution",),
    "llmtrace.analyses.hit_dist": ("HitDist",),
    "llmtrace.analyses.latency": ("Latency",),
    "llmtrace.analyses.popularity": ("Popularity",),
    "llmtrace.analyses.reuse_time": ("ReuseTime",),
    "llmtrace.analyses.stats": ("Stats",),
    "llmtrace.engine.local": ("run",),
    "llmtrace.errors": ("InputError", "LlmtraceError", "MissingColumnError", "OutputError", "UsageError"),
    "llmtrace.formats.layout": ("ReadOptions",),
    "llmtrace.result": ("Result",),
    "llmtrace.trace": ("Filters", "Trace", "open_trace"),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'llmtrace' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
