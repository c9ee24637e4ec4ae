"""Recordings (``.pumice`` files): how they are written and read. Nothing here runs a scheduler."""

from pumice.recordings.errors import NothingRecordedError, RecordingError
from pumice.recordings.frames import FORMAT_VERSION, SUFFIX
from pumice.recordings.reader import Ending, Recording
from pumice.recordings.writer import RecordingWriter

__all__ = [
    "FORMAT_VERSION",
    "SUFFIX",
    "Ending",
    "NothingRecordedError",
    "Recording",
    "RecordingError",
    "RecordingWriter",
]
