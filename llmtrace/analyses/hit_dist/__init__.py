"""Which share of each prompt came from a prefix cache, by length, model and user, and what it saves in time to first token."""

from llmtrace.analyses.hit_dist.analysis import PARTS, HitDist

__all__ = ["PARTS", "HitDist"]
