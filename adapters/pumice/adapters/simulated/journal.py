"""The journal of calls of a simulated cluster. A call returns when it is on disk.

The options and the calls determine the state of a cluster. A process that starts with the journal
of another process repeats its calls, at the same simulated seconds, and gets the same cluster.
"""

import asyncio
import base64
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from google.protobuf.message import Message

from pumice.adapters.simulated.options import SimulationOptions
from pumice.v1.decision_pb2 import Bind, Evict
from pumice.v1.object_pb2 import ObjectRef
from pumice.v1.status_pb2 import Event, StatusChange

_FORMAT = "pumice simulated cluster 2"
_START = "start_unix_ms"
# The types of the calls' arguments.
CALLS: Mapping[str, type[Message]] = {
    "bind": Bind,
    "evict": Evict,
    "status": StatusChange,
    "event": Event,
    "read": ObjectRef,
}
# An entry without a call: the second up to which events have happened.
TIME = ""


class StateError(Exception):
    """A state file from which the cluster cannot be restored."""


@contextmanager
def locked_state(path: Path | None) -> Iterator[None]:
    """Locks a state file until the process ends. Raises StateError."""
    if path is None:
        yield
        return
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateError(f"{path} is in use by another process") from None
        yield


@dataclass(frozen=True, slots=True)
class Entry:
    """A call and its second; without a call, the second up to which events have happened."""

    second: float
    call: str = TIME
    argument: Message | None = None

    def encode(self) -> bytes:
        body = b"" if self.argument is None else self.argument.SerializeToString()
        line = [self.second, self.call, base64.b64encode(body).decode()]
        return json.dumps(line, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> "Entry":
        second, call, body = json.loads(line)
        if call == TIME:
            return cls(second)
        return cls(second, call, CALLS[call].FromString(base64.b64decode(body)))


class Journal(Protocol):
    """A log of calls."""

    start_unix_ms: int

    def entries(self) -> Iterator[Entry]: ...

    def write(self, entry: Entry) -> None: ...

    async def flushed(self) -> None:
        """Returns when everything written is on disk."""
        ...


class NoJournal:
    """No journal: the cluster ends with its process."""

    def __init__(self, start_unix_ms: int) -> None:
        self.start_unix_ms = start_unix_ms

    def entries(self) -> Iterator[Entry]:
        return iter(())

    def write(self, entry: Entry) -> None:
        pass

    async def flushed(self) -> None:
        pass


class FileJournal:
    """A journal in a file. Entries that arrive together share one write."""

    def __init__(self, path: Path, options: SimulationOptions, start_unix_ms: int) -> None:
        """Opens the journal, or creates it for a cluster that starts now.

        Raises StateError if the file belongs to another cluster, or is not a journal.
        """
        self.start_unix_ms = start_unix_ms
        self._path = path
        self._lines: list[bytes] = []
        self._waiting: list[bytes] = []
        self._written = self._safe = 0
        self._flush: asyncio.Task[None] | None = None
        if path.exists() and path.stat().st_size:
            self._open(options)
        if not self._lines:
            self._append(_header(options, start_unix_ms))

    def entries(self) -> Iterator[Entry]:
        try:
            yield from map(Entry.decode, self._lines[1:])
        except (ValueError, KeyError) as error:
            raise StateError(f"{self._path} is damaged: {error}") from error
        self._lines.clear()

    def write(self, entry: Entry) -> None:
        self._waiting.append(entry.encode())
        self._written += 1

    async def flushed(self) -> None:
        wanted = self._written
        while self._safe < wanted:
            if self._flush is None:
                self._flush = asyncio.get_running_loop().create_task(self._flush_waiting())
            # A caller that is cancelled must not cancel the write of the others.
            await asyncio.shield(self._flush)

    async def _flush_waiting(self) -> None:
        """Writes the waiting entries. After a failure no call returns any more."""
        lines, self._waiting, count = self._waiting, [], self._written
        await asyncio.to_thread(self._append, b"".join(lines))
        self._safe = count
        self._flush = None

    def _append(self, data: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(data)
            file.flush()
            os.fdatasync(file.fileno())

    def _open(self, options: SimulationOptions) -> None:
        data = self._path.read_bytes()
        # A killed process can leave an incomplete line. Its call did not return.
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(self._path, len(whole))
        self._lines = whole.splitlines(keepends=True)
        if not self._lines:
            return
        try:
            self.start_unix_ms = int(json.loads(self._lines[0])[_START])
        except (ValueError, KeyError, TypeError):
            raise StateError(f"{self._path} is not the state of a simulated cluster") from None
        header = _header(options, self.start_unix_ms)
        if self._lines[0] != header:
            raise StateError(f"{self._path} {_difference(self._lines[0], header)}")


def _header(options: SimulationOptions, start_unix_ms: int) -> bytes:
    # The only set among the options becomes a sorted list.
    given = {"format": _FORMAT, _START: start_unix_ms, **asdict(options)}
    return json.dumps(given, default=sorted).encode() + b"\n"


def _difference(found: bytes, wanted: bytes) -> str:
    try:
        held: Any = json.loads(found)
    except ValueError:
        held = None
    if not isinstance(held, dict) or held.get("format") != _FORMAT:
        return "is not the state of a simulated cluster"
    given = json.loads(wanted)
    names = [name for name in given if held.get(name) != given[name]]
    return f"belongs to a cluster with other options: {', '.join(names)}"
