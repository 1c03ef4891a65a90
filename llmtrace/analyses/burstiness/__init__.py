"""How bursty arrivals are: gaps between requests, over the whole trace, per key, per hour, and at every time scale."""

from llmtrace.analyses.burstiness.analysis import Burstiness
from llmtrace.analyses.burstiness.grain import ClockGrain

__all__ = ["Burstiness", "ClockGrain"]
