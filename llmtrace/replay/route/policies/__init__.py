"""Routing policies, one per module: the rule in words, its source, its state, and the kernel that chooses."""
