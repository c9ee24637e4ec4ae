"""Reads the usage of all nodes from Prometheus, Elasticsearch or the custom metrics API."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import msgspec

from pumice.adapters.kubernetes.errors import NOT_FOUND, ApiError
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.kubernetes.usage_settings import CUSTOM_METRICS, PROMETHEUS, UsageSettings
from pumice.manifests.errors import FieldError
from pumice.manifests.quantities import nanos
from pumice.manifests.times import timestamp_ns

# Longer responses are refused.
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
# Further nodes are ignored.
MAX_NODES: Final = 20_000
_PERIOD: Final = "10m"
_OK: Final = 200
_CPU_QUERY: Final = (
    'avg_over_time(clamp_min(100 - (avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m]))'
    f" * 100), 0)[{_PERIOD}:30s])"
)
_MEMORY_QUERY: Final = (
    "100 * avg_over_time((1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes)"
    f"[{_PERIOD}:30s])"
)
_CUSTOM: Final = ("node_cpu_usage_avg", "node_memory_usage_avg")
_PERCENT: Final = 100.0


class UsageError(Exception):
    """A source sent no usable response."""


@dataclass(slots=True)
class Usage:
    """The usage of one node in percent, and its time in Unix seconds."""

    time: float
    cpu: float | None = None
    memory: float | None = None


Usages = dict[str, Usage]


class UsageSource:
    """One source of usage data. Calls raise UsageError and errors of the transport."""

    def __init__(self, settings: UsageSettings, api: ApiSession, seconds: float) -> None:
        self._settings, self._api, self._seconds = settings, api, seconds

    async def poll(self, now: float) -> Usages:
        if self._settings.type == CUSTOM_METRICS:
            return await self._custom_metrics()
        timeout = aiohttp.ClientTimeout(total=self._seconds)
        connector = aiohttp.TCPConnector(ssl=not self._settings.skips_verification)
        # Proxies of the environment are ignored, because the address is inside the cluster.
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as http:
            if self._settings.type == PROMETHEUS:
                return await self._prometheus(http, now)
            return await self._elasticsearch(http, now)

    async def _prometheus(self, http: aiohttp.ClientSession, now: float) -> Usages:
        found: Usages = {}
        for key, query in (("cpu", _CPU_QUERY), ("memory", _MEMORY_QUERY)):
            url = f"{self._settings.address}/api/v1/query"
            body = await _fetch(http.post(url, data={"query": query}, allow_redirects=False))
            answer = _decoded(body)
            if answer.get("status") != "success":
                raise UsageError(f"Prometheus refuses the query: {str(answer.get('error'))[:200]}")
            for series in _list(_mapping(answer.get("data")).get("result")):
                node = _mapping(_mapping(series).get("metric")).get("instance")
                value = _list(_mapping(series).get("value"))
                number = _number(value[1]) if len(value) == 2 else None
                _add(found, node, key, number, now)
        return found

    async def _elasticsearch(self, http: aiohttp.ClientSession, now: float) -> Usages:
        settings = self._settings
        parts = {"cpu": "host.cpu.usage", "memory": "system.memory.actual.used.pct"}
        hosts = {
            "terms": {"field": settings.host_field, "size": MAX_NODES},
            "aggs": {key: {"avg": {"field": name}} for key, name in parts.items()},
        }
        since = {"range": {"@timestamp": {"gte": f"now-{_PERIOD}", "lt": "now"}}}
        query = {"size": 0, "query": since, "aggs": {"hosts": hosts}}
        headers = _basic(settings.username, settings.password) if settings.username else {}
        url = f"{settings.address}/{quote(settings.index, safe='*,-_.')}/_search"
        request = http.post(url, json=query, headers=headers, allow_redirects=False)
        answer = _decoded(await _fetch(request))
        found: Usages = {}
        hosts_found = _mapping(_mapping(answer.get("aggregations")).get("hosts"))
        for bucket in map(_mapping, _list(hosts_found.get("buckets"))):
            for key in parts:
                part = _number(_mapping(bucket.get(key)).get("value"))
                percent = None if part is None else part * _PERCENT
                _add(found, bucket.get("key"), key, percent, now)
        return found

    async def _custom_metrics(self) -> Usages:
        found: Usages = {}
        for key, metric in zip(("cpu", "memory"), _CUSTOM, strict=True):
            for item in map(_mapping, _list((await self._custom_metric(metric)).get("items"))):
                try:
                    time = timestamp_ns(str(item.get("timestamp")), "timestamp") / 1e9
                    part = nanos(str(item.get("value"))) / 1e9
                except FieldError as error:
                    raise UsageError(f"{metric}: {error}") from None
                node = _mapping(item.get("describedObject")).get("name")
                _add(found, node, key, part * _PERCENT, time)
        return found

    async def _custom_metric(self, metric: str) -> Mapping[str, Any]:
        for version in ("v1beta2", "v1beta1"):
            path = f"/apis/custom.metrics.k8s.io/{version}/nodes/*/{metric}"
            try:
                return _decoded(await self._api.call("GET", path, seconds=self._seconds))
            except ApiError as error:
                if error.status != NOT_FOUND or version == "v1beta1":
                    raise
        return {}


def _basic(username: str, password: str) -> dict[str, str]:
    word = b64encode(f"{username}:{password}".encode()).decode()
    return {"Authorization": f"Basic {word}"}


async def _fetch(request: Any) -> bytes:
    """The body of a response, up to a limit."""
    async with request as answer:
        body = b""
        async for part in answer.content.iter_any():
            body += part
            if len(body) > MAX_ANSWER_BYTES:
                raise UsageError(f"the response is longer than {MAX_ANSWER_BYTES >> 20} MiB")
        if answer.status != _OK:
            raise UsageError(f"the source responds with status {answer.status}")
        return body


def _decoded(body: bytes) -> Mapping[str, Any]:
    try:
        return _mapping(msgspec.json.decode(body))
    except msgspec.DecodeError as error:
        raise UsageError(f"the response is not JSON: {error}") from None


def _add(usages: Usages, node: object, key: str, number: float | None, time: float) -> None:
    if not isinstance(node, str) or not node or number is None or not isfinite(number):
        return
    if node not in usages and len(usages) >= MAX_NODES:
        return
    usage = usages.setdefault(node, Usage(time))
    if key == "cpu":
        usage.cpu = number
    else:
        usage.memory = number


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, str | int | float) else None
    except ValueError:
        return None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
