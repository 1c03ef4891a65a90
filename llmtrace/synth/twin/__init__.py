"""A statistical twin of a trace: what is measured of the original, what is carried over, and how requests are drawn from it."""
