"""Replay of a cache: which requests find what they reuse, by policy and capacity."""
