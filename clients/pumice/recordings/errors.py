"""What is wrong with a recording."""

from __future__ import annotations


class RecordingError(Exception):
    """A file that cannot be used as a recording at all: says which, and why."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"{source}: {problem}")
        self.source = source
        self.problem = problem


class NothingRecordedError(RecordingError):
    """A recording that was begun, and of which not even the header is whole."""
