"""Which models and users carry the load: how unequal they are, who uses what, how long their requests are, and when they come."""

from llmtrace.analyses.popularity.access import Access, chosen, with_rasters
from llmtrace.analyses.popularity.analysis import MOST_USERS, Popularity

__all__ = ["MOST_USERS", "Access", "Popularity", "chosen", "with_rasters"]
