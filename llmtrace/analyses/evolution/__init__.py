"""How a workload changes from month to month: its models, its lengths, its users, and what they turn to."""

from llmtrace.analyses.evolution.analysis import Evolution
from llmtrace.analyses.evolution.cohorts import Cohorts
from llmtrace.analyses.evolution.naming import pairs

__all__ = ["Cohorts", "Evolution", "pairs"]
