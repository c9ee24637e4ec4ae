"""A proxy before the API server that counts what passes, and does harm when it is told to."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

from tests.controlplane.credentials import HOST, Credentials

_NOT_FORWARDED = {"host", "content-length", "transfer-encoding", "connection"}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Call:
    """One request, in the words that rights are given with."""

    verb: str
    # With its group and subresource, such as `pods/binding` or `podgroups.scheduling.volcano.sh`.
    resource: str
    name: str = ""
    status: int = 0

    @property
    def is_write(self) -> bool:
        return self.verb in _VERBS.values()

    @classmethod
    def of(cls, request: web.Request) -> Call:
        parts = request.path.strip("/").split("/")
        group = parts[1] if parts[0] == "apis" and len(parts) > 1 else ""
        rest = parts[3:] if parts[0] == "apis" else parts[2:]
        if rest[:1] == ["namespaces"] and len(rest) > 2:
            rest = rest[2:]
        if not rest:
            return cls("get", request.path)
        resource, name, sub = (*rest, "", "")[:3]
        shown = f"{resource}/{sub}" if sub else resource
        shown = f"{shown}.{group}" if group else shown
        return cls(_verb(request, name), shown, name)


def _verb(request: web.Request, name: str) -> str:
    if request.method != "GET":
        return _VERBS[request.method]
    if "watch" in request.query:
        return "watch"
    return "get" if name else "list"


@dataclass(slots=True)
class Fault:
    """Something that goes wrong with calls of a kind, so many times."""

    verb: str
    resource: str
    times: int = 1
    # Answered so, and not forwarded.
    status: int = 0
    retry_after: str = ""
    # Forwarded and carried out, but the answer never arrives.
    loses_answer: bool = False
    # How often it happened.
    done: int = 0

    def takes(self, call: Call) -> bool:
        if self.done >= self.times or (self.verb, self.resource) != (call.verb, call.resource):
            return False
        self.done += 1
        return True


@dataclass(slots=True)
class Hold:
    """Lets some calls of a kind pass, and keeps the rest until it is opened."""

    verb: str
    resource: str
    passes: int
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    held: int = 0

    async def wait(self, call: Call) -> bool:
        """Whether it had to."""
        if self.opened.is_set() or (self.verb, self.resource) != (call.verb, call.resource):
            return False
        if self.passes > 0:
            self.passes -= 1
            return False
        self.held += 1
        await self.opened.wait()
        return True


@dataclass(slots=True)
class FaultyProxy:
    """Stands between an adapter and the API server."""

    upstream: str
    credentials: Credentials
    faults: list[Fault] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    url: str = ""
    holds: list[Hold] = field(default_factory=list)
    # Calls that were held never arrive.
    drop_held: bool = False
    # Seconds that a call takes on its way, asked for each one.
    delay: Callable[[Call], float] = lambda _: 0.0
    _runner: web.AppRunner | None = None
    _http: aiohttp.ClientSession | None = None
    _watches: dict[asyncio.Task[object], str] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        tls = ssl.create_default_context(cafile=str(self.credentials.certificate))
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls, limit=0), auto_decompress=False
        )
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        server.load_cert_chain(self.credentials.certificate, self.credentials.key)
        await web.TCPSite(self._runner, HOST, 0, ssl_context=server).start()
        port = self._runner.addresses[0][1]
        self.url = f"https://{HOST}:{port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for hold in self.holds:
            hold.opened.set()
        self.cut_watches()
        assert self._runner is not None
        assert self._http is not None
        await self._runner.cleanup()
        await self._http.close()
        await asyncio.sleep(0.01)

    # What tests ask for.

    def break_calls(self, verb: str, resource: str, **fields: object) -> Fault:
        fault = Fault(verb, resource, **fields)  # type: ignore[arg-type]
        self.faults.append(fault)
        return fault

    def hold_calls(self, verb: str, resource: str, passes: int) -> Hold:
        hold = Hold(verb, resource, passes)
        self.holds.append(hold)
        return hold

    def cut_watches(self, resource: str = "") -> int:
        """Breaks the watches of a resource, or all of them; returns how many."""
        cut = [task for task, what in self._watches.items() if resource in ("", what)]
        for task in cut:
            task.cancel()
        return len(cut)

    def counts(self, since: int = 0) -> Counter[tuple[str, str]]:
        return Counter((call.verb, call.resource) for call in self.calls[since:])

    def bound(self) -> Counter[str]:
        """How often each pod was bound with success."""
        return Counter(
            call.name
            for call in self.calls
            if call.resource == "pods/binding" and call.status < 300
        )

    def writes(self, since: int = 0) -> list[Call]:
        """All but renewals of the lease."""
        return [
            call
            for call in self.calls[since:]
            if call.is_write and call.resource != "leases.coordination.k8s.io"
        ]

    # What passes.

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        call = Call.of(request)
        was_held = [await hold.wait(call) for hold in self.holds]
        if seconds := self.delay(call):
            await asyncio.sleep(seconds)
        if any(was_held) and self.drop_held:
            return self._hang_up(request)
        if request.transport is None or request.transport.is_closing():
            # Whoever sent it died meanwhile, so it never arrived.
            return web.Response()
        fault = next((one for one in self.faults if one.takes(call)), None)
        if fault is not None and fault.status:
            self._note(call, fault.status)
            return _refusal(fault)
        if call.verb == "watch":
            return await self._forward_watch(request, call)
        return await self._forward(request, call, fault)

    def _note(self, call: Call, status: int) -> None:
        self.calls.append(Call(call.verb, call.resource, call.name, status))

    async def _forward(
        self, request: web.Request, call: Call, fault: Fault | None
    ) -> web.StreamResponse:
        body = await request.read()
        assert self._http is not None
        try:
            async with self._http.request(
                request.method,
                self.upstream + request.path_qs,
                data=body or None,
                headers=_headers(request),
            ) as answer:
                content = await answer.read()
                status, headers = answer.status, answer.headers
        except (aiohttp.ClientError, OSError):
            return self._hang_up(request)
        self._note(call, status)
        if fault is not None and fault.loses_answer:
            return self._hang_up(request)
        kept = {
            key: text for key, text in headers.items() if key in ("Content-Type", "Retry-After")
        }
        return web.Response(body=content, status=status, headers=kept)

    def _hang_up(self, request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def _forward_watch(self, request: web.Request, call: Call) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        assert self._http is not None
        self._watches[task] = call.resource
        limit = aiohttp.ClientTimeout(total=None)
        try:
            async with self._http.get(
                self.upstream + request.path_qs, headers=_headers(request), timeout=limit
            ) as answer:
                self._note(call, answer.status)
                reply = web.StreamResponse(
                    status=answer.status, headers={"Content-Type": answer.content_type}
                )
                await reply.prepare(request)
                async for chunk in answer.content.iter_any():
                    await reply.write(chunk)
                await reply.write_eof()
                return reply
        except asyncio.CancelledError:
            return self._hang_up(request)
        except (aiohttp.ClientError, OSError):
            return self._hang_up(request)
        finally:
            del self._watches[task]


def _headers(request: web.Request) -> dict[str, str]:
    return {key: text for key, text in request.headers.items() if key.lower() not in _NOT_FORWARDED}


def _refusal(fault: Fault) -> web.Response:
    reasons = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError"}
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": f"{fault.verb} {fault.resource}: this is a test",
        "reason": reasons.get(fault.status, "ServiceUnavailable"),
        "code": fault.status,
    }
    headers = {"Retry-After": fault.retry_after} if fault.retry_after else {}
    return web.Response(
        body=json.dumps(body).encode(),
        status=fault.status,
        content_type="application/json",
        headers=headers,
    )
