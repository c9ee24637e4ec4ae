"""The HTTP pages of an adapter: /livez, /readyz, /healthz and /metrics."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from pumice.adapters.kubernetes.errors import NoAccessError
from pumice.adapters.runtime.health import Health, Probe
from pumice.adapters.runtime.metrics import Metrics

_Handler = Callable[[web.Request], Awaitable[web.Response]]
_UNHEALTHY: Final = 503


class PageAddresses(Protocol):
    """Addresses of the pages: `host:port` or `:port`; empty: not served."""

    @property
    def metrics_address(self) -> str: ...

    @property
    def health_address(self) -> str: ...


@asynccontextmanager
async def serve_pages(
    settings: PageAddresses, metrics: Metrics, health: Health
) -> AsyncIterator[None]:
    """Serves the pages within the context."""
    runners: list[web.AppRunner] = []
    addresses: dict[str, list[web.RouteDef]] = {}

    async def shown(_: web.Request) -> web.Response:
        health.run()
        headers = {"Content-Type": CONTENT_TYPE_LATEST}
        return web.Response(body=metrics.render(), headers=headers)

    if settings.health_address:
        addresses.setdefault(settings.health_address, []).extend(
            [
                web.get("/livez", _probe_page(health, "livez", Probe.LIVE)),
                web.get("/readyz", _probe_page(health, "readyz", Probe.READY)),
                web.get("/healthz", _probe_page(health, "healthz", Probe.ANY)),
                # Volcano has this page, which only shows that the process responds.
                web.get("/healthz/ping", _probe_page(health, "ping", Probe(0))),
            ]
        )
    if settings.metrics_address:
        addresses.setdefault(settings.metrics_address, []).append(web.get("/metrics", shown))
    try:
        for address, routes in addresses.items():
            runners.append(await _serve(address, routes))
        yield
    finally:
        for runner in runners:
            await runner.cleanup()


def _probe_page(health: Health, name: str, probe: Probe) -> _Handler:
    """A page in the format of the API server: "ok", or one line per check."""

    async def page(request: web.Request) -> web.Response:
        results = health.run(probe)
        is_ok = all(result.is_ok for result in results)
        if is_ok and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [
            f"[+]{result.name} ok" if result.is_ok else f"[-]{result.name} failed: {result.problem}"
            for result in results
        ]
        lines.append(f"{name} check {'passed' if is_ok else 'failed'}")
        return web.Response(text="\n".join(lines) + "\n", status=200 if is_ok else _UNHEALTHY)

    return page


async def _serve(address: str, routes: list[web.RouteDef]) -> web.AppRunner:
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        raise NoAccessError(f"{address!r} is not of the form host:port")
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host or None, int(port)).start()
    except OSError as error:
        await runner.cleanup()
        raise NoAccessError(f"cannot listen on {address}: {error.strerror or error}") from error
    return runner
