"""Recordings (``.pumice`` files): writing, reading and what-if runs, without a scheduler."""

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
