"""The queues that every cluster has: made when they are not there, as the reference does."""

import logging
from typing import Any, Final

import msgspec

from pumice.adapters.kubernetes.errors import CONFLICT, NOT_FOUND, ApiError
from pumice.adapters.kubernetes.patience import Patience
from pumice.adapters.kubernetes.resources import VOLCANO, Resource
from pumice.adapters.kubernetes.session import METADATA_ONLY, ApiSession

log = logging.getLogger(__name__)

ROOT: Final = "root"
_ENCODE: Final = msgspec.json.Encoder().encode


class QueueMaker:
    """Makes the root queue and the default queue in one API group."""

    def __init__(self, api: ApiSession, patience: Patience, default_queue: str) -> None:
        self._api, self._patience, self._default = api, patience, default_queue

    async def make(self, resource: Resource) -> None:
        """Tries until it is done; NOT_FOUND, when the resource went meanwhile, is raised."""
        # kube-batch knows no hierarchy, and so no root.
        if resource.group == VOLCANO:
            await self._make(resource, ROOT, reclaimable=False)
        await self._make(resource, self._default, reclaimable=True)

    async def _make(self, resource: Resource, name: str, *, reclaimable: bool) -> None:
        async for attempt in self._patience.retrying(f"queue {name}"):
            with attempt:
                await self._make_once(resource, name, reclaimable)

    async def _make_once(self, resource: Resource, name: str, reclaimable: bool) -> None:
        try:
            await self._api.call("GET", resource.path(name=name), accept=METADATA_ONLY)
            return
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
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
            await self._api.call("POST", resource.path(), _ENCODE(body), accept=METADATA_ONLY)
        except ApiError as error:
            if error.status != CONFLICT:
                raise
        log.info("queue %s was made", name)
