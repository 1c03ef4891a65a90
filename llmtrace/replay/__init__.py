"""Simulators that carry state through a trace, request by request."""
