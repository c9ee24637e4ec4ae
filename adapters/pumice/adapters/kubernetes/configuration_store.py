"""Stores the last accepted scheduler configuration in a ConfigMap, for the next process."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from pumice.adapters.kubernetes.errors import (
    NOT_FOUND,
    ApiError,
    KubernetesError,
    MissingRightsError,
    NotLeadingError,
    one_line,
)
from pumice.adapters.kubernetes.quantities import shown_time
from pumice.adapters.kubernetes.retries import RetryPolicy
from pumice.adapters.kubernetes.session import JSON, MERGE, ApiSession, Fence
from pumice.adapters.runtime.clock import Clock

log = logging.getLogger(__name__)

SUFFIX: Final = "-last-good-configuration"
KEY: Final = "scheduler.conf"
SOURCE: Final = "pumice.sh/source"
ACCEPTED: Final = "pumice.sh/accepted-time"
# A ConfigMap may have one MiB, including names and annotations.
MOST_BYTES: Final = 1_000_000
_TRIES: Final = 5
_ENCODE: Final = msgspec.json.Encoder().encode


class _Data(msgspec.Struct):
    data: dict[str, str] = {}


_DATA: Final = msgspec.json.Decoder(_Data)


class ConfigMapConfigurationStore:
    """A ConfigMap in the namespace of the lease. The leader writes each accepted configuration."""

    def __init__(
        self,
        api: ApiSession,
        namespace: str,
        lease_name: str,
        retries: RetryPolicy,
        clock: Clock,
        fence: Fence,
        report: Callable[[str], Awaitable[None]],
    ) -> None:
        self._api, self._retries, self._clock, self._fence = api, retries, clock, fence
        self._namespace, self._name = namespace, f"{lease_name}{SUFFIX}"
        self._collection = f"/api/v1/namespaces/{namespace}/configmaps"
        self._path = f"{self._collection}/{self._name}"
        self._report = report

    @property
    def description(self) -> str:
        return f"the last good configuration, kept in ConfigMap {self._namespace}/{self._name}"

    async def load(self) -> str | None:
        try:
            body = await self._call("GET", self._path)
            return None if body is None else _DATA.decode(body).data.get(KEY)
        except (KubernetesError, msgspec.MsgspecError) as error:
            log.warning("%s cannot be read: %s", self.description, one_line(error))
            return None

    async def save(self, text: str, source: str) -> bool:
        size = len(text.encode())
        if size > MOST_BYTES:
            log.warning(
                "the configuration is not stored for a restart: it has %d bytes; at most %d are allowed",
                size,
                MOST_BYTES,
            )
            return True
        body = _ENCODE(self._body(text, source))
        try:
            if await self._call("PATCH", self._path, body) is None:
                await self._call("POST", self._collection, body)
        except KubernetesError as error:
            level = logging.INFO if isinstance(error, NotLeadingError) else logging.WARNING
            log.log(level, "the configuration is not stored for a restart yet: %s", one_line(error))
            return False
        return True

    async def report_refusal(self, problem: str) -> None:
        await self._report(problem)

    def _body(self, text: str, source: str) -> dict[str, Any]:
        now = shown_time(self._clock.unix_ms() * 1_000_000)
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "namespace": self._namespace,
                "name": self._name,
                "annotations": {SOURCE: source, ACCEPTED: now},
            },
            "data": {KEY: text},
        }

    async def _call(self, method: str, path: str, body: bytes = b"") -> bytes | None:
        """The response; None: the object does not exist."""
        fence = self._fence if body else None
        content_type = MERGE if method == "PATCH" else JSON
        refusal = None
        try:
            async for attempt in self._retries.retrying(f"ConfigMap {self._name}", tries=_TRIES):
                with attempt:
                    try:
                        return await self._api.call(
                            method, path, body, content_type=content_type, fence=fence
                        )
                    except MissingRightsError as error:
                        # A retry does not help: an operator must grant the right first.
                        refusal = error
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
        if refusal is not None:
            raise refusal
        return None
