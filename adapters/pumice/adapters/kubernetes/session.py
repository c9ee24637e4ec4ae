"""A session with an API server: calls, pages and streams, with credentials that are renewed.

Short calls use the connection pool, which is faster than a general client; pages and watches use
aiohttp. Every problem is a KubernetesError: an ApiError if the server refused the call, a
LostAnswerError if the call may have taken effect, an UnreachableError if it was not sent. A call is
tried once; `retries` has the policy for more.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol
from urllib.parse import urlencode

import aiohttp

from pumice.adapters.kubernetes.api import Access
from pumice.adapters.kubernetes.connections import ConnectionPool, Reply, keep_alive, warnings_in
from pumice.adapters.kubernetes.errors import (
    UNAUTHORIZED,
    BadCredentialsError,
    LostAnswerError,
    NotLeadingError,
    ReadOnlyError,
    UnreachableError,
    one_line,
)
from pumice.adapters.kubernetes.rate_limit import TokenBucket
from pumice.adapters.kubernetes.refusals import failure
from pumice.adapters.kubernetes.resources import resource_label
from pumice.adapters.runtime.clock import Clock, end_tasks
from pumice.adapters.runtime.durations import RecentDurations
from pumice.adapters.runtime.metrics import Metrics

log = logging.getLogger(__name__)

JSON: Final = "application/json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
# Only the object's metadata is returned.
METADATA_ONLY: Final = (
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)

METADATA_LIST: Final = (
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)

_REFRESH_SECONDS: Final = 60.0
_PAGE_SECONDS: Final = 120.0
_LONGEST_WATCH_SECONDS: Final = 700.0
_CONNECT_SECONDS: Final = 10.0
# All other codes are refusals. An API server does not redirect; only a proxy does.
_SUCCESS: Final = range(200, 300)
# Credentials that are refused are loaded again so often at most: an exec plugin may be expensive.
_RELOAD_SECONDS: Final = 5.0
_LONGEST_ERROR_BODY: Final = 1 << 16
# A list without pages can be large; all other responses are much smaller.
_LONGEST_PAGE: Final = 1 << 30

Fence = Callable[[], bool]


class Credentials(Protocol):
    """The source of the access to an API server. Both methods may block."""

    def load(self) -> Access: ...

    def refresh(self) -> Access: ...


def _socket(address: Any) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    keep_alive(made)
    return made


async def _read_error(answer: aiohttp.ClientResponse) -> bytes:
    """The beginning of a refusal, which may be long."""
    body = b""
    try:
        async for part in answer.content.iter_any():
            body += part
            if len(body) > _LONGEST_ERROR_BODY:
                break
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        log.debug("an error response is incomplete: %s", one_line(error))
    return body


async def _read_all(content: aiohttp.StreamReader) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in content.iter_any():
        size += len(part)
        if size > _LONGEST_PAGE:
            raise LostAnswerError(f"the answer is longer than {_LONGEST_PAGE >> 20} MiB")
        parts.append(part)
    return b"".join(parts)


class ApiSession:
    """Calls, pages and streams of one API server. Open it before use, close it after."""

    def __init__(
        self,
        credentials: Credentials,
        rate_limit: TokenBucket,
        clock: Clock,
        metrics: Metrics,
        *,
        connections: int = 32,
        read_only: bool = False,
        user_agent: str = "pumice-adapter",
    ) -> None:
        self._credentials, self._rate_limit, self._clock = credentials, rate_limit, clock
        self._metrics, self._connections = metrics, connections
        self._read_only, self._user_agent = read_only, user_agent
        self._access: Access | None = None
        self._headers = ""
        self._pool: ConnectionPool | None = None
        self._http: aiohttp.ClientSession | None = None
        self._retired: dict[asyncio.Task[None], aiohttp.ClientSession | ConnectionPool] = {}
        self._renewal: asyncio.Task[None] | None = None
        self._refresh_at = self._reload_at = 0.0
        self.durations = RecentDurations(clock)

    @property
    def server(self) -> str:
        return "" if self._access is None else self._access.server

    async def open(self) -> None:
        """Raises NoAccessError."""
        self._use(await asyncio.to_thread(self._credentials.load))

    async def close(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)
        await end_tasks(*self._retired)
        for user in (*self._retired.values(), self._pool, self._http):
            if user is not None:
                await user.close()

    async def open_connections(self) -> None:
        """Opens the connections of calls, so that the first gang does not wait for them."""
        if self._pool is not None:
            await self._pool.open_all(_CONNECT_SECONDS)

    # Calls.

    async def call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        content_type: str = JSON,
        accept: str = JSON,
        seconds: float = 10.0,
        fence: Fence | None = None,
        urgent: bool = False,
        on_warning: Callable[[str], None] | None = None,
    ) -> bytes:
        """The body of the response. Raises KubernetesError; tries once.

        The fence is checked directly before the call is sent. An urgent call waits neither for the
        rate limit nor for a connection.
        """
        if self._read_only and method != "GET":
            raise ReadOnlyError(method, path)
        if not urgent:
            await self._rate_limit.acquire()
        access = self._current()
        head = f"Accept: {accept}\r\n"
        if body:
            head += f"Content-Type: {content_type}\r\n"
        reply = await self._exchange(method, path, head, body, seconds, fence, urgent)
        if reply.status == UNAUTHORIZED:
            await self._renew(access, reply)
            reply = await self._exchange(method, path, head, body, seconds, fence, urgent)
            if reply.status == UNAUTHORIZED:
                raise BadCredentialsError(failure(reply.status, reply.body).message)
        if reply.status not in _SUCCESS:
            raise failure(reply.status, reply.body, reply.retry_after)
        if on_warning is not None:
            for text in reply.warnings:
                on_warning(text)
        return reply.body

    async def _exchange(
        self,
        method: str,
        path: str,
        head: str,
        body: bytes,
        seconds: float,
        fence: Fence | None,
        urgent: bool,
    ) -> Reply:
        headers = head + self._headers
        began, code = self._clock.now(), "none"
        try:
            if self._pool is not None:
                reply = await self._pool.exchange(
                    method, path, headers, body, seconds, fence, urgent=urgent
                )
            else:
                reply = await self._exchange_by_proxy(method, path, headers, body, seconds, fence)
            code = str(reply.status)
            return reply
        finally:
            self._metrics.observe(
                "api_request_duration_seconds",
                self.durations.add_since(began),
                method=method,
                resource=resource_label(path),
                code=code,
            )

    async def _exchange_by_proxy(
        self, method: str, path: str, head: str, body: bytes, seconds: float, fence: Fence | None
    ) -> Reply:
        if fence is not None and not fence():
            raise NotLeadingError
        http, access = self._opened()
        lines = (line.partition(": ") for line in head.split("\r\n") if line)
        headers = {name: text for name, _, text in lines}
        limit = aiohttp.ClientTimeout(total=seconds)
        try:
            async with http.request(
                method,
                access.server + path,
                data=body or None,
                headers=headers,
                timeout=limit,
                proxy=access.proxy or None,
                server_hostname=access.server_name or None,
                allow_redirects=False,
            ) as answer:
                content = await _read_all(answer.content)
                warnings = warnings_in(answer.headers.getall("Warning", ()))
                return Reply(
                    answer.status, content, answer.headers.get("Retry-After", ""), warnings
                )
        except aiohttp.ClientConnectorError as error:
            raise UnreachableError(access.server, one_line(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise LostAnswerError(f"no answer: {one_line(error)}") from error

    # Pages and streams: large or long.

    async def page(self, path: str, query: Mapping[str, str], accept: str = JSON) -> bytes:
        """The whole body of a large response, such as a page of a list."""
        async with self.stream(path, query, _PAGE_SECONDS, _PAGE_SECONDS, accept) as content:
            try:
                return await _read_all(content)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise LostAnswerError(f"the response is incomplete: {one_line(error)}") from error

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        query: Mapping[str, str],
        seconds: float,
        quiet_seconds: float,
        accept: str = JSON,
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """The body of a response while it arrives, such as a watch."""
        await self._rate_limit.acquire()
        access = self._current()
        limit = aiohttp.ClientTimeout(
            total=seconds, sock_connect=_CONNECT_SECONDS, sock_read=quiet_seconds
        )
        answer = await self._get(path, query, limit, accept)
        try:
            if answer.status == UNAUTHORIZED:
                reply = Reply(answer.status, await _read_error(answer))
                answer.close()
                await self._renew(access, reply)
                answer = await self._get(path, query, limit, accept)
            if answer.status not in _SUCCESS:
                body = await _read_error(answer)
                if answer.status == UNAUTHORIZED:
                    raise BadCredentialsError(failure(answer.status, body).message)
                raise failure(answer.status, body, answer.headers.get("Retry-After", ""))
            yield answer.content
        finally:
            # Closed and not released: the rest of a watch would have to be read first.
            answer.close()

    async def _get(
        self, path: str, query: Mapping[str, str], limit: aiohttp.ClientTimeout, accept: str
    ) -> aiohttp.ClientResponse:
        http, access = self._opened()
        headers = {"Accept": accept, "Accept-Encoding": "identity"}
        if access.authorization:
            headers["Authorization"] = access.authorization
        target = f"{access.server}{path}?{urlencode(query)}" if query else access.server + path
        try:
            return await http.get(
                target,
                headers=headers,
                timeout=limit,
                proxy=access.proxy or None,
                server_hostname=access.server_name or None,
                allow_redirects=False,
            )
        except aiohttp.ClientConnectorError as error:
            raise UnreachableError(access.server, one_line(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise LostAnswerError(f"no answer: {one_line(error)}") from error

    # Credentials.

    def _opened(self) -> tuple[aiohttp.ClientSession, Access]:
        assert self._http is not None, "open the session first"
        assert self._access is not None
        return self._http, self._access

    def _current(self) -> Access:
        assert self._access is not None, "open the session first"
        now = self._clock.now()
        if now >= self._refresh_at and self._renewal is None:
            # In the background: the old token is still valid for a while.
            self._refresh_at = now + _REFRESH_SECONDS
            self._start_renewal(self._credentials.refresh)
        return self._access

    async def _renew(self, access: Access, reply: Reply) -> None:
        """Loads credentials after a refusal; one renewal serves all calls that were refused."""
        now = self._clock.now()
        if self._access is not access or (self._renewal is None and now < self._reload_at):
            return
        self._reload_at = now + _RELOAD_SECONDS
        self._metrics.count("credential_reloads")
        log.info("the API server does not accept the credentials; loading them again")
        renewal = self._renewal or self._start_renewal(self._credentials.load)
        await asyncio.shield(renewal)
        log.debug("the response of the API server: %r", reply.body[:200])

    def _start_renewal(self, load: Callable[[], Access]) -> "asyncio.Task[None]":
        async def renew() -> None:
            try:
                self._use(await asyncio.to_thread(load))
            except Exception as error:
                log.error("credentials could not be loaded: %s", one_line(error))
            finally:
                self._renewal = None

        self._renewal = asyncio.get_running_loop().create_task(renew())
        return self._renewal

    def _retire(self, user: aiohttp.ClientSession | ConnectionPool) -> None:
        """Closes connections of old certificates when the last watch over them has ended."""

        async def close_later() -> None:
            await self._clock.sleep(_LONGEST_WATCH_SECONDS)
            await user.close()
            del self._retired[task]

        task = asyncio.get_running_loop().create_task(close_later())
        self._retired[task] = user

    def _use(self, access: Access) -> None:
        before, self._access = self._access, access
        self._refresh_at = self._clock.now() + _REFRESH_SECONDS
        header = access.authorization
        self._headers = f"Authorization: {header}\r\n" if header else ""
        if before is not None and before.fingerprint == access.fingerprint:
            return
        for user in (self._http, self._pool):
            if user is not None:
                self._retire(user)
        connector = aiohttp.TCPConnector(
            ssl=access.tls if access.tls is not None else True,
            limit=0,
            keepalive_timeout=60,
            socket_factory=_socket,
        )
        self._http = aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": self._user_agent},
            auto_decompress=False,
            trust_env=False,
        )
        self._pool = (
            None if access.proxy else ConnectionPool(access, self._connections, self._user_agent)
        )
