"""Log lines: one record is one line, regardless of its message."""

from __future__ import annotations

import logging

# Characters that end a line, move the cursor or change the text direction.
_CONTROL = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F))
_CONTROL += tuple(range(0x2066, 0x206A))
_ESCAPES = {code: ascii(chr(code))[1:-1] for code in _CONTROL}
MAX_LINE_LENGTH = 8192
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def escaped(text: str) -> str:
    """The text with control characters and line breaks escaped, truncated to the maximum length."""
    text = text.translate(_ESCAPES)
    if len(text) <= MAX_LINE_LENGTH:
        return text
    return f"{text[:MAX_LINE_LENGTH]}... ({len(text)} characters)"


class LineFormatter(logging.Formatter):
    """Escapes messages, and indents lines of tracebacks, so that none looks like a record."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        record.message = escaped(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:  # noqa: N802
        lines = super().formatException(ei).split("\n")  # type: ignore[arg-type]
        return "\n".join(f"    {escaped(line)}" for line in lines)


def configure_logging(level: str) -> None:
    """Sends records of this level or higher to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler])
