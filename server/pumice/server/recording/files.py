"""Files of recordings, with rotation by size and age."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pumice.recordings import (
    SUFFIX,
    NothingRecordedError,
    Recording,
    RecordingError,
    RecordingWriter,
)
from pumice.v1.recording_pb2 import RecordingEntry

log = logging.getLogger("pumice.server")
_SECOND_NS = 1_000_000_000
# Time, first session, and a number if the name exists already.
_NAME_END = re.compile(r"-(\d{8}T\d{6}Z)-(\d+)(?:\.(\d+))?")
_ESCAPED = re.compile(rb"[^A-Za-z0-9._-]|^\.")
# A file name may have 255 bytes; time, session and suffix take about 50.
MAX_FILE_NAME_LENGTH = 180


def file_name_of(cluster: str) -> str:
    """A file name for a cluster. Different clusters have different file names.

    Bytes other than letters, digits, dot, dash and underscore become %XX. A long name is truncated
    and ends with ~ and a hash; other names contain no ~.
    """
    data = cluster.encode()
    name = _ESCAPED.sub(lambda found: b"%%%02X" % found[0][0], data).decode()
    if len(name) <= MAX_FILE_NAME_LENGTH:
        return name
    return f"{name[: MAX_FILE_NAME_LENGTH - 33]}~{hashlib.sha256(data).hexdigest()[:32]}"


@dataclass(frozen=True, slots=True)
class RecordingOptions:
    """The target of recordings: a folder, or one file that is never rotated."""

    path: Path
    # Size and age at which the next file begins.
    max_bytes: int = 256 * 1024 * 1024
    max_age_ns: int = 3600 * _SECOND_NS
    # Number of files to keep for each cluster; 0: all.
    kept_files: int = 0

    @property
    def is_one_file(self) -> bool:
        return self.path.suffix == SUFFIX

    def check(self) -> None:
        """Creates the folder. Raises RecordingError if the folder or file cannot be written."""
        folder = self.path.parent if self.is_one_file else self.path
        try:
            # A recording contains every object of a cluster, so only its owner may read it.
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise RecordingError(str(folder), error.strerror or str(error)) from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise RecordingError(str(folder), "is not writable")
        if self.is_one_file and self.path.exists() and self.path.stat().st_size:
            with suppress(NothingRecordedError):
                Recording(self.path).close()


class RecordingFiles:
    """Writes the entries of one cluster. The caller checks ``is_full`` and begins the next file."""

    def __init__(self, options: RecordingOptions, cluster: str) -> None:
        self._options = options
        self._cluster = file_name_of(cluster)
        self._writer: RecordingWriter | None = None
        self._since_ns = 0
        # Whether the checkpoint at the beginning of the file is complete.
        self._has_checkpoint = False
        # The files that this process began, in their order.
        self._begun: list[Path] = []

    def begin(self, first_session: int, now_ns: int) -> None:
        """Closes the current file and begins the next one."""
        self.close()
        self._options.check()
        self._since_ns, self._has_checkpoint = now_ns, False
        self._writer = RecordingWriter(self._path(first_session, now_ns))
        self._begun.append(self._writer.path)
        if self._writer.cut_bytes:
            path, cut = self._writer.path, self._writer.cut_bytes
            log.warning("%s: the last %d bytes were incomplete and were truncated", path, cut)
        self._prune()

    def _path(self, first_session: int, now_ns: int) -> Path:
        if self._options.is_one_file:
            return self._options.path
        time = datetime.fromtimestamp(now_ns / _SECOND_NS, UTC).strftime("%Y%m%dT%H%M%SZ")
        name = f"{self._cluster}-{time}-{first_session:08d}"
        path = self._options.path / f"{name}{SUFFIX}"
        number = 1
        while path.exists():
            number += 1
            path = self._options.path / f"{name}.{number}{SUFFIX}"
        return path

    def _prune(self) -> None:
        if self._options.kept_files and not self._options.is_one_file:
            own = sorted(self._own())
            for _, old in own[: -self._options.kept_files]:
                old.unlink(missing_ok=True)
            self._begun = [path for path in self._begun if path.exists()]

    def _own(self) -> Iterator[tuple[tuple[int, str, int, int], Path]]:
        """The files of this cluster with their sort keys.

        The time in a name does not order the files of this process, because the clock may be set
        back.
        """
        places = {path: place for place, path in enumerate(self._begun, 1)}
        for path in self._options.path.glob(f"*{SUFFIX}"):
            name = path.name.removesuffix(SUFFIX)
            end = _NAME_END.fullmatch(name.removeprefix(self._cluster))
            if end is not None and name.startswith(self._cluster):
                time, session, number = end.groups("1")
                yield (places.get(path, 0), time, int(session), int(number)), path

    def put(self, entry: RecordingEntry) -> None:
        if self._writer is not None:
            self._writer.write(entry)

    def flush(self) -> None:
        if self._writer is not None:
            self._writer.flush()

    def complete_checkpoint(self) -> None:
        """Writes the checkpoint that was put into a new file. An incomplete one is removed."""
        self.flush()
        self._has_checkpoint = True

    @property
    def is_removed(self) -> bool:
        """Whether the current file was deleted or moved, so that later entries would be lost."""
        return self._writer is not None and self._writer.is_removed

    def is_full(self, now_ns: int) -> bool:
        if self._writer is None or self._options.is_one_file:
            return False
        return (
            self._writer.size >= self._options.max_bytes
            or now_ns - self._since_ns >= self._options.max_age_ns
        )

    def close(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()

    def abandon(self) -> None:
        """Closes a file that can no longer be written, without completing it.

        A file without a checkpoint cannot be read, and there may be one for each retry, so it is
        removed.
        """
        if self._writer is not None:
            writer, self._writer = self._writer, None
            with suppress(OSError):
                writer.abandon()
            if not (self._has_checkpoint or self._options.is_one_file):
                with suppress(OSError):
                    writer.path.unlink()
