"""A connection pool for short HTTP/1.1 calls.

A general HTTP client needs more time for a bind than the API server. This client writes prepared
bytes and reads one response of known or chunked length. Idle connections are closed before the
server closes them, and TCP keepalive finds those that were dropped silently.
"""

import asyncio
import re
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import urlsplit

from pumice.adapters.kubernetes.api import Access
from pumice.adapters.kubernetes.errors import (
    LostAnswerError,
    NotLeadingError,
    UnreachableError,
    one_line,
)

# The API server closes connections that are idle for 90 s.
_IDLE_SECONDS: Final = 60.0
# A connection to a peer that does not respond is closed after about 25 s.
_KEEPALIVE: Final = (
    ("TCP_KEEPIDLE", 10),
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 25_000),
)
_MOST_BYTES: Final = 64 << 20
_WITHOUT_BODY: Final = (204, 304)
_HEAD_END: Final = b"\r\n\r\n"
_WARNING: Final = b"warning"
_WARNING_FORM: Final = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')


def keep_alive(connection: socket.socket) -> None:
    """Enables TCP keepalive, with those options that the platform has."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        option = getattr(socket, name, None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


@dataclass(frozen=True, slots=True)
class Reply:
    """One response."""

    status: int
    body: bytes
    retry_after: str = ""
    # Warnings of the API server about an accepted request.
    warnings: tuple[str, ...] = ()


class BrokenReplyError(Exception):
    """The response is not valid HTTP/1.1."""


class _Connection(asyncio.Protocol):
    """One connection, with one exchange at a time."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.is_open = False
        self.must_close = False
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._waiter: asyncio.Future[Reply] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transports of other event loops are not subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        keep_alive(transport.get_extra_info("socket"))
        self.is_open = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._fail(LostAnswerError(f"the connection broke ({exc or 'closed by the server'})"))

    def send(self, data: bytes) -> "asyncio.Future[Reply]":
        assert self._transport is not None
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return self._waiter

    def close(self) -> None:
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        try:
            reply = self._parsed()
        except (ValueError, BrokenReplyError) as error:
            self._fail(LostAnswerError(f"the response is not HTTP: {error}"))
            self.close()
            return
        if reply is None:
            return
        if self._buffer:
            # The next call would read these bytes as its response.
            self.must_close = True
        waiter, self._waiter = self._waiter, None
        if waiter is None:
            # A response without a request: the connection is out of step.
            self.close()
        elif not waiter.done():
            waiter.set_result(reply)

    def _fail(self, error: Exception) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)

    def _parsed(self) -> Reply | None:
        """Removes a complete response from the buffer; None: not complete yet."""
        if len(self._buffer) > _MOST_BYTES:
            raise BrokenReplyError("too large")
        end = self._buffer.find(_HEAD_END)
        if end < 0:
            return None
        lines = bytes(self._buffer[:end]).split(b"\r\n")
        status = int(lines[0][9:12])
        headers = _headers(lines[1:])
        start = end + len(_HEAD_END)
        if headers.get(b"connection", b"").lower() == b"close":
            self.must_close = True
        if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
            whole = _chunked(self._buffer, start)
            if whole is None:
                return None
            body, used = whole
        else:
            length = 0 if status in _WITHOUT_BODY else int(headers.get(b"content-length", b"-1"))
            if length < 0:
                raise BrokenReplyError("no length")
            used = start + length
            if len(self._buffer) < used:
                return None
            body = bytes(self._buffer[start:used])
        del self._buffer[:used]
        retry_after = headers.get(b"retry-after", b"").decode("latin-1")
        warnings = warnings_in(_texts(lines[1:], _WARNING)) if _WARNING in headers else ()
        return Reply(status, body, retry_after, warnings)


def _headers(lines: list[bytes]) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, _, text = line.partition(b":")
        headers[name.lower()] = text.strip()
    return headers


def _texts(lines: list[bytes], name: bytes) -> list[str]:
    """The values of a header that may occur more than once."""
    pairs = (line.partition(b":") for line in lines)
    return [text.decode("utf-8", "replace") for key, _, text in pairs if key.lower() == name]


def warnings_in(values: Iterable[str]) -> tuple[str, ...]:
    """The texts in Warning headers, of the form `299 - "text"`."""
    found = (_WARNING_FORM.search(value) for value in values)
    return tuple(re.sub(r"\\(.)", r"\1", one[1]) for one in found if one is not None)


def _chunked(buffer: bytearray, start: int) -> tuple[bytes, int] | None:
    """Body and end of a chunked response; None: not complete yet."""
    parts: list[bytes] = []
    at = start
    while True:
        end = buffer.find(b"\r\n", at)
        if end < 0:
            return None
        size = int(bytes(buffer[at:end]).partition(b";")[0], 16)
        at = end + 2
        if size == 0:
            # An empty line follows. The server sends no trailers, because none were requested.
            return (b"".join(parts), at + 2) if len(buffer) >= at + 2 else None
        if len(buffer) < at + size + 2:
            return None
        parts.append(bytes(buffer[at : at + size]))
        at += size + 2


class ConnectionPool:
    """A pool of connections to one API server."""

    def __init__(
        self,
        access: Access,
        connections: int,
        user_agent: str,
        idle_seconds: float = _IDLE_SECONDS,
    ) -> None:
        self._idle_seconds = idle_seconds
        self._expiry: asyncio.TimerHandle | None = None
        parts = urlsplit(access.server)
        self._access, self._most = access, connections
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if access.tls else 80)
        self._prefix = parts.path
        self._head = f"Host: {parts.netloc}\r\nUser-Agent: {user_agent}\r\n"
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()
        self._opening = 0
        # Calls that wait for a connection. Each gets one, or None if it may open one.
        self._queue: deque[asyncio.Future[_Connection | None]] = deque()
        self._is_closed = False

    async def exchange(
        self,
        method: str,
        target: str,
        headers: str,
        body: bytes,
        seconds: float,
        fence: Callable[[], bool] | None,
        *,
        urgent: bool = False,
    ) -> Reply:
        """Raises UnreachableError if nothing was sent, and LostAnswerError otherwise.

        An urgent call does not wait for a free connection. It may open one beyond the limit.
        """
        connection = await self._connection(seconds, urgent)
        head = (
            f"{method} {self._prefix}{target} HTTP/1.1\r\n{self._head}{headers}"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        data = head.encode("latin-1") + body
        # Nothing is awaited between the fence and the write, so a former leader sends no call.
        if fence is not None and not fence():
            self._release(connection)
            raise NotLeadingError
        answer = connection.send(data)
        # The timeout does not include the wait for a connection.
        loop = asyncio.get_running_loop()
        timer = loop.call_later(seconds, _expire, answer, seconds)
        try:
            return await answer
        except BaseException:
            connection.close()
            raise
        finally:
            timer.cancel()
            self._release(connection)

    async def open_all(self, seconds: float) -> None:
        """Opens connections up to the limit. Failures are ignored: a call reports its own."""
        missing = self._most - len(self._all) - self._opening
        opening = (self._open(seconds) for _ in range(missing))
        for opened in await asyncio.gather(*opening, return_exceptions=True):
            if isinstance(opened, _Connection):
                self._release(opened)

    async def close(self) -> None:
        self._is_closed = True
        if self._expiry is not None:
            self._expiry.cancel()
        for connection in list(self._all):
            connection.close()
        # Transports close in the next iteration of the loop.
        await asyncio.sleep(0)

    async def _connection(self, seconds: float, urgent: bool) -> _Connection:
        while True:
            while self._idle:
                connection = self._idle.pop()
                if connection.is_open:
                    return connection
                self._all.discard(connection)
            if urgent or len(self._all) + self._opening < self._most:
                return await self._open(seconds)
            given = await self._wait_for_connection()
            if given is not None and given.is_open:
                return given
            if given is not None:
                self._all.discard(given)

    async def _wait_for_connection(self) -> _Connection | None:
        waiter: asyncio.Future[_Connection | None] = asyncio.get_running_loop().create_future()
        self._queue.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                given = waiter.result()
                if given is None:
                    self._next()
                else:
                    self._release(given)
            raise

    async def _open(self, seconds: float) -> _Connection:
        tls: ssl.SSLContext | None = self._access.tls
        name = (self._access.server_name or self._host) if tls is not None else None
        self._opening += 1
        connection: _Connection | None = None
        try:
            async with asyncio.timeout(seconds):
                _, connection = await asyncio.get_running_loop().create_connection(
                    _Connection, self._host, self._port, ssl=tls, server_hostname=name
                )
        except (OSError, TimeoutError) as error:
            raise UnreachableError(self._access.server, one_line(error)) from error
        finally:
            self._opening -= 1
            if connection is None:
                # It failed, or the call was cancelled: another call may open one instead.
                self._next()
        self._all.add(connection)
        return connection

    def _release(self, connection: _Connection) -> None:
        if connection.must_close or self._is_closed:
            connection.close()
        if not connection.is_open:
            self._all.discard(connection)
            self._next()
        elif not self._next(connection):
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
            if self._expiry is None:
                self._expire_later(self._idle_seconds)

    def _expire_later(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._expiry = loop.call_later(seconds, self._expire_idle)

    def _expire_idle(self) -> None:
        """Closes connections that were idle for too long. The oldest are first."""
        now = asyncio.get_running_loop().time()
        while self._idle and now - self._idle[0].idle_since >= self._idle_seconds:
            connection = self._idle.pop(0)
            connection.close()
            self._all.discard(connection)
        self._expiry = None
        if self._idle:
            self._expire_later(self._idle[0].idle_since + self._idle_seconds - now)

    def _next(self, connection: _Connection | None = None) -> bool:
        """Gives a connection to the call that waited longest; returns whether there was one."""
        while self._queue:
            waiter = self._queue.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return True
        return False


def _expire(answer: "asyncio.Future[Reply]", seconds: float) -> None:
    if not answer.done():
        answer.set_exception(LostAnswerError(f"no answer within {seconds:g} s"))
