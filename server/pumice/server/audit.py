"""The audit log: one log line and one metric count for every refused call."""

from __future__ import annotations

import logging
from typing import Any

import grpc

from pumice.server.clock import Clock
from pumice.server.metrics import Metrics

log = logging.getLogger("pumice.audit")
_SECOND_NS = 1_000_000_000
MAX_LINES_PER_SECOND = 20
# Refusals that an operator should look into. The others are normal.
_DENIED = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


class AuditLog:
    """Logs a limited number of lines per second; the next line has the number of omitted lines."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._second = -1
        self._lines = 0
        self._omitted = 0

    def record_refusal(self, method: str, caller: str, code: Any, details: str) -> None:
        status = code if isinstance(code, grpc.StatusCode) else grpc.StatusCode.UNKNOWN
        self._metrics.refused_calls.labels(method, status.name).inc()
        second = self._clock.ticks_ns() // _SECOND_NS
        if second != self._second:
            self._second, self._lines = second, 0
        if self._lines >= MAX_LINES_PER_SECOND:
            self._omitted += 1
            return
        self._lines += 1
        omitted, self._omitted = self._omitted, 0
        more = f" ({omitted} refusals before this one were not logged)" if omitted else ""
        level = logging.WARNING if status in _DENIED else logging.INFO
        log.log(
            level, "refused %s to %s: %s: %s%s", method, caller, status.name, details or "", more
        )
