"""`python -m llmtrace` is `llmtrace`."""

from llmtrace.cli import entry

if __name__ == "__main__":
    entry()
