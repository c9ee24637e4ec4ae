"""Recordings (``.pumice`` files): how they are written and read. Nothing here runs a scheduler."""

from pumice.recordings.errors import RecordingError
from pumice.recordings.frames import FORMAT_VERSION, SUFFIX
from pumice.recordings.reader import Ending, Recording
from pumice.recordings.writer import RecordingWriter

__all__ = [
    "FORMAT_VERSION",
    "SUFFIX",
    "Ending",
    "Recording",
    "RecordingError",
    "RecordingWriter",
]
