"""The recorder of one cluster: notes on the owner's thread, everything else on its own.

What it costs a session is putting a few references into a queue.
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
_BREATH_SECONDS = 0.001
# The end of a core waits so long for what is left to be written.
_CLOSE_SECONDS = 10.0
# A disk that failed is tried again after so long.
_RETRY_SECONDS = 60.0
# So many notes may wait; beyond, the file ends, and another begins with a checkpoint.
MAX_QUEUED_ENTRIES = 50_000


class Listener(Protocol):
    """Somebody who gets a recording as it happens, from a checkpoint on."""

    def put(self, entry: RecordingEntry) -> None: ...

    def end(self, *, lost: bool) -> None:
        """Nothing more comes: the core ends, or there was too much to keep up with."""
        ...


_Note = Callable[[], None]


def _breathe() -> None:
    """Lets sessions go on while a large checkpoint is written: one thread at a time runs."""
    time.sleep(_BREATH_SECONDS)


class Recorder:
    """A cluster's ClusterObserver. It does nothing until there is a file or somebody who listens."""

    def __init__(self, origin: entries.Origin, files: RecordingFiles | None = None) -> None:
        self._origin = origin
        self._files = files
        self._listeners: list[Listener] = []
        self._notes: queue.SimpleQueue[_Note | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._identity = ("", 0)
        # Written by the owner: whether notes are taken, and whether some were lost.
        self._active = False
        self._behind = False
        # Files that the owner has asked for.
        self._asked = 0
        # Written by the recorder's thread: the file that is written, and, read by the owner, the
        # last one that is full. It may be told of a file again when another is asked for already.
        self._current = 0
        self._full = 0
        self._flushed = 0.0
        self._retry_at: float | None = None

    # From the owner's thread, or before there is one.

    def start(self, state: ClusterState, now_ns: int) -> None:
        """Begins the first file, where there shall be files."""
        if self._files is not None:
            self._post_opening(state, now_ns)

    def listen(self, listener: Listener, state: ClusterState, now_ns: int) -> None:
        """The listener gets a checkpoint of this moment, and all that follows."""
        taken = StateCheckpoint(state, self._identity)
        self._awake()
        self._notes.put(lambda: self._admit(listener, taken, now_ns))

    def leave(self, listener: Listener) -> None:
        self._notes.put(lambda: self._dismiss(listener))

    def _awake(self) -> None:
        self._active = True
        if self._thread is None:
            name = f"recorder of {self._origin.cluster}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    def _post_opening(self, state: ClusterState, now_ns: int) -> None:
        taken = StateCheckpoint(state, self._identity)
        self._awake()
        self._asked += 1
        number = self._asked
        self._notes.put(lambda: self._open_file(taken, now_ns, number))

    def _post(self, made: Callable[[], Iterator[RecordingEntry]]) -> None:
        if not self._active or self._behind:
            return
        if self._notes.qsize() > MAX_QUEUED_ENTRIES:
            self._behind = True
            log.warning("%s: the recording cannot keep up; a part is left out", self._name)
            self._notes.put(self._lose)
            return
        self._notes.put(lambda: self._write(made()))

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
        caught_up = self._behind and self._notes.empty()
        if caught_up or (self._asked and self._full == self._asked):
            self._behind = False
            if self._files is not None:
                self._post_opening(state, result.now_ns)

    def close(self) -> None:
        """Writes what is left, and ends. Nothing may be noted afterwards."""
        self._active = False
        if self._thread is not None:
            self._notes.put(None)
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
                note = self._notes.get(timeout=_FLUSH_SECONDS if pending else None)
            except queue.Empty:
                self._guarded(self._flush)
                pending = self._retry_at is not None
                continue
            if note is None:
                break
            self._guarded(note)
            pending = True
            if time.monotonic() - self._flushed >= _FLUSH_SECONDS:
                self._guarded(self._flush)
        for listener in self._listeners:
            listener.end(lost=False)
        self._guarded(self._close_file)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except OSError as error:
            # Scheduling goes on without a recording.
            log.error("%s: not recorded, tried again in a minute: %s", self._name, error)
            if self._files is not None:
                self._files.abandon()
                self._retry_at = time.monotonic() + _RETRY_SECONDS
        except RecordingError as error:
            log.error("%s: no longer recorded: %s", self._name, error)
            self._files = None
        except Exception:
            log.exception("%s: no longer recorded after an error", self._name)
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

    def _open_file(self, taken: StateCheckpoint, now_ns: int, number: int) -> None:
        if self._files is None:
            return
        self._current = number
        self._files.begin(taken.engine.session + 1, now_ns)
        for entry in entries.opening(self._origin, taken, now_ns, _breathe):
            self._files.put(entry)
        self._files.flush()

    def _flush(self) -> None:
        self._flushed = time.monotonic()
        if self._retry_at is not None and self._flushed >= self._retry_at:
            self._retry_at = None
            self._full = self._current
        if self._files is not None:
            self._files.flush()

    def _close_file(self) -> None:
        if self._files is not None:
            self._files.close()

    def _lose(self) -> None:
        self._close_file()
        for listener in self._listeners:
            listener.end(lost=True)
        self._listeners.clear()

    def _admit(self, listener: Listener, taken: StateCheckpoint, now_ns: int) -> None:
        self._listeners.append(listener)
        for entry in entries.opening(self._origin, taken, now_ns, _breathe):
            listener.put(entry)

    def _dismiss(self, listener: Listener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)
