"""Errors of recordings."""

from __future__ import annotations


class RecordingError(Exception):
    """A file that is not a valid recording."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"{source}: {problem}")
        self.source = source
        self.problem = problem


class NothingRecordedError(RecordingError):
    """A recording without a complete header."""
