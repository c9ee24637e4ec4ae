"""HTTP pages of a core: /metrics for Prometheus, /livez and /readyz for probes."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import ThreadingWSGIServer, make_wsgi_app

_LOOP_SECONDS = 5.0
_REQUEST_SECONDS = 10.0
_Start = Callable[[str, list[tuple[str, str]]], Any]


class _Handler(WSGIRequestHandler):
    """Logs no requests, and closes a connection that sends nothing."""

    timeout = _REQUEST_SECONDS

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


class HttpPages:
    """Serves the pages on separate threads, so that a probe notices when the event loop hangs."""

    def __init__(
        self,
        registry: CollectorRegistry,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[], Iterable[str]],
    ) -> None:
        """``report`` returns one line per cluster. It is called on the loop."""
        self._metrics = make_wsgi_app(registry)
        self._loop = loop
        self._report = report
        self.is_ready = False
        self._server: WSGIServer | None = None
        self._thread: threading.Thread | None = None

    def start(self, host: str, port: int) -> int:
        """Starts to serve; returns the port. Raises OSError."""
        self._server = make_server(host, port, self._answer, ThreadingWSGIServer, _Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="HTTP pages", daemon=True
        )
        self._thread.start()
        return int(self._server.server_port)

    def stop(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def _answer(self, environ: dict[str, Any], start: _Start) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "/")
        if path == "/metrics":
            answer: Iterable[bytes] = self._metrics(environ, start)
            return answer
        if path not in ("/livez", "/readyz", "/healthz"):
            return _text(start, "404 Not Found", "available pages: /metrics /livez /readyz\n")
        lines = self._ask_loop()
        if lines is None:
            return _text(start, "503 Service Unavailable", "the event loop does not respond\n")
        if path == "/readyz" and not self.is_ready:
            return _text(start, "503 Service Unavailable", "the core is starting or stopping\n")
        verbose = "verbose" in environ.get("QUERY_STRING", "")
        return _text(start, "200 OK", "\n".join([*(lines if verbose else ()), "ok", ""]))

    def _ask_loop(self) -> list[str] | None:
        """The report of the loop; None: it does not respond in time."""
        future: concurrent.futures.Future[list[str]] = concurrent.futures.Future()
        try:
            self._loop.call_soon_threadsafe(lambda: future.set_result(list(self._report())))
            return future.result(_LOOP_SECONDS)
        except (TimeoutError, RuntimeError):
            return None


def _text(start: _Start, status: str, body: str) -> list[bytes]:
    start(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [body.encode()]
