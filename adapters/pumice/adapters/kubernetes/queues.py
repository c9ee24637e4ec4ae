"""The root queue and the default queue: created when they are missing, as Volcano does."""

import logging
from typing import Any, Final

import msgspec

from pumice.adapters.kubernetes.errors import CONFLICT, NOT_FOUND, ApiError
from pumice.adapters.kubernetes.resources import VOLCANO, Resource
from pumice.adapters.kubernetes.retries import RetryPolicy
from pumice.adapters.kubernetes.session import MERGE, METADATA_ONLY, ApiSession

log = logging.getLogger(__name__)

ROOT: Final = "root"
_ENCODE: Final = msgspec.json.Encoder().encode


class _State(msgspec.Struct):
    state: str = ""


class _Queue(msgspec.Struct):
    status: _State = msgspec.field(default_factory=_State)


_QUEUE: Final = msgspec.json.Decoder(_Queue)


class QueueMaker:
    """Creates the root queue and the default queue in one API group."""

    def __init__(self, api: ApiSession, retries: RetryPolicy, default_queue: str) -> None:
        self._api, self._retries, self._default = api, retries, default_queue

    async def make(self, resource: Resource) -> None:
        """Retries until both exist. Raises ApiError, such as NOT_FOUND when the resource went."""
        # kube-batch has no hierarchy of queues, so it has no root.
        if resource.group == VOLCANO:
            await self._make(resource, ROOT, reclaimable=False)
        await self._make(resource, self._default, reclaimable=True)

    async def _make(self, resource: Resource, name: str, *, reclaimable: bool) -> None:
        async for attempt in self._retries.retrying(f"queue {name}"):
            with attempt:
                await self._make_once(resource, name, reclaimable)

    async def _make_once(self, resource: Resource, name: str, reclaimable: bool) -> None:
        try:
            found = await self._api.call("GET", resource.path(name=name))
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            found = await self._create(resource, name, reclaimable)
        if resource.group == VOLCANO and not _QUEUE.decode(found).status.state:
            # Without Volcano's controllers nobody else opens it.
            opened = _ENCODE({"status": {"state": "Open"}})
            path = resource.path(name=name, subresource="status")
            await self._api.call("PATCH", path, opened, content_type=MERGE, accept=METADATA_ONLY)

    async def _create(self, resource: Resource, name: str, reclaimable: bool) -> bytes:
        spec: dict[str, Any] = {"weight": 1}
        if resource.group == VOLCANO:
            spec["reclaimable"] = reclaimable
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.name,
            "metadata": {"name": name},
            "spec": spec,
        }
        try:
            made = await self._api.call("POST", resource.path(), _ENCODE(body))
        except ApiError as error:
            if error.status != CONFLICT:
                raise
            return await self._api.call("GET", resource.path(name=name))
        log.info("queue %s was created", name)
        return made
