"""How long requests take: to the first token, from there to the last, per token, by model, by length and by load."""

from llmtrace.analyses.latency.analysis import Latency

__all__ = ["Latency"]
