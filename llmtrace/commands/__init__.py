"""One thin module per command: its own options, the question it answers, and the call that answers it."""
