"""What was asked of a simulated cluster, on disk before anybody is answered.

A cluster is what its options and its calls made of it, so a process that starts with the journal of
another one makes the same calls again, at the same simulated seconds, and has the same cluster.
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

_FORMAT = "pumice simulated world 1"
# Every call to the cluster, and how its argument is read back.
CALLS: Mapping[str, type[Message]] = {
    "bind": Bind,
    "evict": Evict,
    "status": StatusChange,
    "event": Event,
    "read": ObjectRef,
}
# Time passed, and the calendar with it.
PASSED = ""


class StateError(Exception):
    """A state file that this cluster cannot go on from."""


@contextmanager
def alone_with(path: Path | None) -> Iterator[None]:
    """Keeps a state file for this process until it ends, however it ends. Raises StateError."""
    if path is None:
        yield
        return
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateError(f"another process has {path} open") from None
        yield


@dataclass(frozen=True, slots=True)
class Entry:
    """One call and its second; without a call, how far time has come."""

    second: float
    call: str = PASSED
    argument: Message | None = None

    def encode(self) -> bytes:
        body = b"" if self.argument is None else self.argument.SerializeToString()
        line = [self.second, self.call, base64.b64encode(body).decode()]
        return json.dumps(line, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> "Entry":
        second, call, body = json.loads(line)
        if call == PASSED:
            return cls(second)
        return cls(second, call, CALLS[call].FromString(base64.b64decode(body)))


class Journal(Protocol):
    """Where calls are written down."""

    def past(self) -> Iterator[Entry]: ...

    def write(self, entry: Entry) -> None: ...

    async def flushed(self) -> None:
        """When all that was written is safe."""
        ...


class NoJournal:
    """For a cluster that ends with its process."""

    def past(self) -> Iterator[Entry]:
        return iter(())

    def write(self, entry: Entry) -> None:
        pass

    async def flushed(self) -> None:
        pass


class FileJournal:
    """A file to which entries are added; those of the same moment share one write."""

    def __init__(self, path: Path, options: SimulationOptions) -> None:
        """Raises StateError when the file is another cluster's, or none at all."""
        self._path = path
        self._past: list[bytes] = []
        self._waiting: list[bytes] = []
        self._written = self._safe = 0
        self._flush: asyncio.Task[None] | None = None
        if path.exists() and path.stat().st_size:
            self._open(_header(options))
        if not self._past:
            self._append(_header(options))

    def past(self) -> Iterator[Entry]:
        try:
            yield from map(Entry.decode, self._past[1:])
        except (ValueError, KeyError) as error:
            raise StateError(f"{self._path} is damaged: {error}") from error
        self._past.clear()

    def write(self, entry: Entry) -> None:
        self._waiting.append(entry.encode())
        self._written += 1

    async def flushed(self) -> None:
        wanted = self._written
        while self._safe < wanted:
            if self._flush is None:
                self._flush = asyncio.get_running_loop().create_task(self._flush_waiting())
            # One who gives up waiting must not take the others' write along.
            await asyncio.shield(self._flush)

    async def _flush_waiting(self) -> None:
        """A failure is for ever: nobody may be answered after it."""
        lines, self._waiting, count = self._waiting, [], self._written
        await asyncio.to_thread(self._append, b"".join(lines))
        self._safe = count
        self._flush = None

    def _append(self, data: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(data)
            file.flush()
            os.fdatasync(file.fileno())

    def _open(self, header: bytes) -> None:
        data = self._path.read_bytes()
        # A process that was killed may have left half a line, which nobody was told of.
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(self._path, len(whole))
        self._past = whole.splitlines(keepends=True)
        if self._past and self._past[0] != header:
            raise StateError(f"{self._path} {_difference(self._past[0], header)}")


def _header(options: SimulationOptions) -> bytes:
    # The one set among the options becomes a list in order.
    given = {"format": _FORMAT, **asdict(options)}
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
