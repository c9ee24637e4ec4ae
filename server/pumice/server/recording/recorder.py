"""The recorder of one cluster.

The owner's thread only puts references into a queue. The recorder's thread encodes and writes them.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from pumice.core.decisions import SessionResult
from pumice.recordings import RecordingError
from pumice.server.recording import entries
from pumice.server.recording.checkpoints import StateCheckpoint
from pumice.server.recording.files import RecordingFiles
from pumice.server.state import ClusterState
from pumice.v1 import cluster_service_pb2, delta_pb2, object_pb2
from pumice.v1.recording_pb2 import RecordingEntry

log = logging.getLogger("pumice.server")
_FLUSH_SECONDS = 1.0
_YIELD_SECONDS = 0.001
# Time that a stopping core waits for queued entries to be written.
_CLOSE_SECONDS = 10.0
# Time after which recording is retried when writing failed.
_RETRY_SECONDS = 60.0
# Number of queued entries above which the file ends and another one begins with a checkpoint.
MAX_QUEUED_ENTRIES = 50_000


class Listener(Protocol):
    """Receives a live recording, which begins with a checkpoint."""

    def put(self, entry: RecordingEntry) -> None: ...

    def end(self, *, lost: bool) -> None:
        """The recording ends; ``lost``: because entries arrived faster than they were written."""
        ...


_Write = Callable[[], None]


def _yield_thread() -> None:
    """Releases the interpreter lock, so that sessions run while a large checkpoint is written."""
    time.sleep(_YIELD_SECONDS)


class Recorder:
    """An observer that records a cluster. It does nothing without a file and without listeners."""

    def __init__(
        self,
        origin: entries.Origin,
        files: RecordingFiles | None = None,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._origin = origin
        self._files = files
        # Called on the recorder's thread.
        self._on_failure = on_failure
        self._listeners: list[Listener] = []
        self._queue: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._identity = ("", 0)
        # Set by the owner: whether entries are queued, and whether entries were lost.
        self._active = False
        self._behind = False
        # Number of files that the owner has requested.
        self._requested = 0
        # Set by the recorder's thread: the number of the current file, and the number of the last
        # full file, which the owner compares with the number of requested files.
        self._current = 0
        self._full = 0
        self._flushed = 0.0
        self._retry_at: float | None = None

    # On the owner's thread, or before it starts.

    def start(self, state: ClusterState, now_ns: int) -> None:
        """Begins the first file, if files are recorded."""
        if self._files is not None:
            self._post_new_file(state, now_ns)

    def add_listener(self, listener: Listener, state: ClusterState, now_ns: int) -> None:
        """Sends a checkpoint and all later entries to a listener."""
        checkpoint = StateCheckpoint(state, self._identity)
        self._activate()
        self._queue.put(lambda: self._add_listener(listener, checkpoint, now_ns))

    def remove_listener(self, listener: Listener) -> None:
        self._queue.put(lambda: self._remove_listener(listener))

    def _activate(self) -> None:
        self._active = True
        if self._thread is None:
            name = f"recorder of {self._origin.cluster}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    def _post_new_file(self, state: ClusterState, now_ns: int) -> None:
        checkpoint = StateCheckpoint(state, self._identity)
        self._activate()
        self._requested += 1
        number = self._requested
        self._queue.put(lambda: self._open_file(checkpoint, now_ns, number))

    def _post(self, make_entries: Callable[[], Iterator[RecordingEntry]]) -> None:
        if not self._active or self._behind:
            return
        if self._queue.qsize() > MAX_QUEUED_ENTRIES:
            self._behind = True
            log.warning("%s: recording is too slow; some entries are lost", self._name)
            self._queue.put(self._end_lost)
            return
        self._queue.put(lambda: self._write(make_entries()))

    def on_connection(
        self,
        hello: cluster_service_pb2.Hello,
        welcome: cluster_service_pb2.Welcome | None,
        now_ns: int,
    ) -> None:
        self._identity = (hello.incarnation, hello.epoch)
        self._post(lambda: entries.connection(hello, welcome, now_ns))

    def on_snapshot_begin(self, first_seq: int, kinds: Sequence[int], now_ns: int) -> None:
        self._post(lambda: entries.snapshot_begin(first_seq, kinds, now_ns))

    def on_batch(
        self,
        batch: delta_pb2.DeltaBatch,
        rejected: Sequence[object_pb2.RejectedObject],
        now_ns: int,
    ) -> None:
        self._post(lambda: entries.batch(batch, rejected, now_ns))

    def on_configuration(
        self, result: cluster_service_pb2.ConfigurationResult, now_ns: int
    ) -> None:
        self._post(lambda: entries.configured(result, now_ns))

    def on_snapshot_end(
        self, seq: int, rejected: Sequence[object_pb2.RejectedObject], now_ns: int
    ) -> None:
        self._post(lambda: entries.snapshot_end(seq, rejected, now_ns))

    def on_skipped_session(self, now_ns: int) -> None:
        self._post(lambda: entries.skipped(now_ns))

    def on_session(
        self,
        state: ClusterState,
        result: SessionResult,
        responses: Sequence[cluster_service_pb2.ConnectResponse],
        duration_ns: int,
    ) -> None:
        if not self._active:
            return
        seq = state.applied_seq
        self._post(lambda: entries.session(result, responses, seq, duration_ns))
        caught_up = self._behind and self._queue.empty()
        if caught_up or (self._requested and self._full == self._requested):
            self._behind = False
            if self._files is not None:
                self._post_new_file(state, result.now_ns)

    def close(self) -> None:
        """Writes the queued entries and stops. Nothing may be queued afterwards."""
        self._active = False
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(_CLOSE_SECONDS)
            if self._thread.is_alive():
                log.error("%s: the end of the recording was not written in time", self._name)
            self._thread = None

    # On the recorder's thread.

    @property
    def _name(self) -> str:
        return self._origin.cluster

    def _run(self) -> None:
        pending = False
        while True:
            try:
                write = self._queue.get(timeout=_FLUSH_SECONDS if pending else None)
            except queue.Empty:
                self._guarded(self._flush)
                pending = self._retry_at is not None
                continue
            if write is None:
                break
            self._guarded(write)
            pending = True
            if time.monotonic() - self._flushed >= _FLUSH_SECONDS:
                self._guarded(self._flush)
        for listener in self._listeners:
            listener.end(lost=False)
        self._guarded(self._close_file)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except (OSError, RecordingError) as error:
            # Scheduling continues without a recording.
            log.error("%s: recording failed and is retried in a minute: %s", self._name, error)
            self._on_failure()
            if self._files is not None:
                self._files.abandon()
                self._retry_at = time.monotonic() + _RETRY_SECONDS
        except Exception:
            log.exception("%s: recording stopped after an error", self._name)
            self._on_failure()
            self._files = None

    def _write(self, made: Iterator[RecordingEntry]) -> None:
        for entry in made:
            if self._files is not None:
                self._files.put(entry)
                if entry.HasField("entry_time") and self._files.is_full(
                    entry.entry_time.ToNanoseconds()
                ):
                    self._full = self._current
            for listener in self._listeners:
                listener.put(entry)

    def _open_file(self, checkpoint: StateCheckpoint, now_ns: int, number: int) -> None:
        if self._files is None:
            return
        self._current = number
        self._files.begin(checkpoint.engine.session + 1, now_ns)
        for entry in entries.opening(self._origin, checkpoint, now_ns, _yield_thread):
            self._files.put(entry)
        self._files.complete_checkpoint()

    def _flush(self) -> None:
        self._flushed = time.monotonic()
        if self._retry_at is not None and self._flushed >= self._retry_at:
            self._retry_at = None
            self._full = self._current
        if self._files is None:
            return
        self._files.flush()
        if self._files.is_removed and self._full != self._current:
            log.warning("%s: the recording was removed; another file begins", self._name)
            self._full = self._current

    def _close_file(self) -> None:
        if self._files is not None:
            self._files.close()

    def _end_lost(self) -> None:
        self._close_file()
        for listener in self._listeners:
            listener.end(lost=True)
        self._listeners.clear()

    def _add_listener(self, listener: Listener, checkpoint: StateCheckpoint, now_ns: int) -> None:
        self._listeners.append(listener)
        for entry in entries.opening(self._origin, checkpoint, now_ns, _yield_thread):
            listener.put(entry)

    def _remove_listener(self, listener: Listener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)
