"""How soon the same user comes back to the same model, and what a time to live would make of it."""

from llmtrace.analyses.reuse_time.analysis import KEY_COLUMNS, ReuseTime

__all__ = ["KEY_COLUMNS", "ReuseTime"]
