"""How evenly instances share the load, over how many of them users spread, and what that does to hits and latency."""

from llmtrace.analyses.balance.analysis import Balance
from llmtrace.analyses.balance.heat_map import ROWS, BusyDay, busy_day, with_busy_day

__all__ = ["ROWS", "Balance", "BusyDay", "busy_day", "with_busy_day"]
