"""How much of what, and when: requests, tokens, users, models and instances over time, and how long requests are."""

from llmtrace.analyses.stats.analysis import Stats

__all__ = ["Stats"]
