"""Monitors whether the core responds to health checks and acknowledges ops."""

import logging
from collections.abc import Callable
from typing import Final, Protocol

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2

from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.connect import ChannelFactory
from pumice.adapters.runtime.metrics import Metrics

log = logging.getLogger(__name__)

_METHOD: Final = "/grpc.health.v1.Health/Check"
_INTERVAL_SECONDS: Final = 1.0
_CALL_SECONDS: Final = 2.0
# Any other status is a response of a running core.
_NO_ANSWER: Final = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
}


class Streaming(Protocol):
    """The part of the runtime that is monitored."""

    @property
    def is_connected(self) -> bool:
        """Whether the core has accepted the stream."""
        ...

    @property
    def unacknowledged(self) -> tuple[int, int]:
        """The last acknowledged op, and the number of ops sent after it."""
        ...


class CoreMonitor:
    """Polls the core, and measures the time for which it has not worked.

    A core does not work while it does not respond to health checks. For a leader, it also does not
    work while there is no stream, or while ops are sent and none is acknowledged.
    """

    def __init__(
        self,
        open_channel: ChannelFactory,
        runtime: Streaming,
        leads: Callable[[], bool],
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._open_channel, self._runtime, self._leads = open_channel, runtime, leads
        self._clock = clock
        self._channel: grpc.aio.Channel | None = None
        self._acknowledged = 0
        # Time of the last response, and the last time at which it served a leader or had none.
        self._answered_at = self._served_at = clock.now()
        self._has_answered = False
        # The last logged reason why the core could not be polled.
        self._problem = ""
        # Whether the core responded to the last health check.
        self.answers = False
        metrics.gauge_from("core_silence_seconds", lambda: self.silence_seconds)

    @property
    def silence_seconds(self) -> float:
        return max(0.0, self._clock.now() - min(self._answered_at, self._served_at))

    def why_silent(self, limit_seconds: float) -> str:
        """The problem, if the core has not worked for a time; otherwise ""."""
        if not self._has_answered:
            return "the core has not responded yet"
        if self.silence_seconds < limit_seconds:
            return ""
        what = "responded" if self._answered_at <= self._served_at else "acknowledged any change"
        return f"the core has not {what} for {self.silence_seconds:.0f} s"

    async def run(self) -> None:
        """Polls until it is cancelled."""
        try:
            while True:
                await self._poll()
                await self._clock.sleep(_INTERVAL_SECONDS)
        finally:
            await self._close()

    async def _poll(self) -> None:
        self.answers = await self._check_health()
        now = self._clock.now()
        if self.answers:
            self._answered_at = now
            self._has_answered = True
        if not self._leads() or self._is_serving():
            self._served_at = now

    def _is_serving(self) -> bool:
        acknowledged, behind = self._runtime.unacknowledged
        has_moved = acknowledged != self._acknowledged
        self._acknowledged = acknowledged
        return self._runtime.is_connected and (has_moved or not behind)

    async def _check_health(self) -> bool:
        try:
            if self._channel is None:
                self._channel = self._open_channel()
            check = self._channel.unary_unary(
                _METHOD,
                request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
                response_deserializer=health_pb2.HealthCheckResponse.FromString,
            )
            await check(health_pb2.HealthCheckRequest(), timeout=_CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.code() not in _NO_ANSWER:
                return True
        except (OSError, ValueError) as error:
            # Certificates or tokens cannot be read now.
            if str(error) != self._problem:
                self._problem = str(error)
                log.warning("the core cannot be polled: %s", error)
        else:
            self._problem = ""
            return True
        # A failed channel waits before it reconnects, but a new one does not.
        await self._close()
        return False

    async def _close(self) -> None:
        if self._channel is not None:
            channel, self._channel = self._channel, None
            await channel.close()
