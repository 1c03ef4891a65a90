"""Sessions: which requests continue which, as the trace says or reconstructed, and what they are like."""

from llmtrace.replay.sessions.requests import Requests, Turns
from llmtrace.replay.sessions.study import Study
from llmtrace.replay.sessions.tracker import LEFT_OUT, Reconstruction, SessionTracker
from llmtrace.replay.sessions.written import with_sessions

__all__ = ["LEFT_OUT", "Reconstruction", "Requests", "SessionTracker", "Study", "Turns", "with_sessions"]
