"""Characterize an LLM-serving workload from its request trace."""

from __future__ import annotations

__version__ = "0.1.0"
