"""Log lines of all processes: of the core and of the adapters."""

from pumice.logs.lines import MAX_LINE_LENGTH, LineFormatter, configure_logging, escaped

__all__ = ["MAX_LINE_LENGTH", "LineFormatter", "configure_logging", "escaped"]
