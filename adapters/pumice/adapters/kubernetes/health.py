"""The pages that a process is watched by: /healthz and /metrics."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from pumice.adapters.kubernetes.errors import NoAccessError
from pumice.adapters.kubernetes.settings import AdapterSettings
from pumice.adapters.runtime.metrics import Metrics


@asynccontextmanager
async def serve_pages(settings: AdapterSettings, metrics: Metrics) -> AsyncIterator[None]:
    """Serves what the settings ask for, for as long as the block runs."""
    runners: list[web.AppRunner] = []
    addresses: dict[str, list[web.RouteDef]] = {}

    async def healthy(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def shown(_: web.Request) -> web.Response:
        return web.Response(text=metrics.render())

    if settings.health_address:
        pages = [web.get("/healthz", healthy), web.get("/healthz/ping", healthy)]
        addresses.setdefault(settings.health_address, []).extend(pages)
    if settings.metrics_address:
        addresses.setdefault(settings.metrics_address, []).append(web.get("/metrics", shown))
    try:
        for address, routes in addresses.items():
            runners.append(await _serve(address, routes))
        yield
    finally:
        for runner in runners:
            await runner.cleanup()


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
        raise NoAccessError(
            f"{address} cannot be listened on: {error.strerror or error}"
        ) from error
    return runner
