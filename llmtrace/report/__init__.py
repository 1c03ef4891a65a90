"""Rendering: what a `Result` looks like as text, files and figures; nothing is computed here."""
