"""Log lines of all processes."""

from pumice.logs.lines import MAX_LINE_LENGTH, LineFormatter, configure_logging, escaped

__all__ = ["MAX_LINE_LENGTH", "LineFormatter", "configure_logging", "escaped"]
