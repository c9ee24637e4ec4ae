"""Recordings (``.pumice`` files): writer, reader and what-if runs, without scheduler code."""

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
