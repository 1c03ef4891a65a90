"""Running: the plans of analyses over the parts of a trace, and their states combined in order of time."""
