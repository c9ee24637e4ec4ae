"""Creates the root queue and the default queue if they are missing, as Volcano does."""

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from pumice.adapters.kubernetes.errors import CONFLICT, NOT_FOUND, ApiError, one_line
from pumice.adapters.kubernetes.reflector import Reflector
from pumice.adapters.kubernetes.resources import QUEUES, VOLCANO, Resource
from pumice.adapters.kubernetes.retries import RetryPolicy
from pumice.adapters.kubernetes.session import MERGE, METADATA_ONLY, ApiSession
from pumice.adapters.runtime.clock import Backoff, Clock, end_tasks

log = logging.getLogger(__name__)

ROOT: Final = "root"
# Delays between attempts to create the queues.
_BACKOFF: Final = Backoff(1.0, 60.0)
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

    async def run(self, reflectors: Sequence[Reflector], clock: Clock, rng: random.Random) -> None:
        """Creates the queues as soon as the cluster has a queue resource."""
        by_resource = {reflector.resource: reflector for reflector in reflectors}
        places = [by_resource[resource] for resource in QUEUES if resource in by_resource]
        await asyncio.gather(*(place.listed.wait() for place in places))
        failures = 0
        while True:
            place = await _first_found(places)
            try:
                await self.make(place)
                return
            except ApiError as error:
                failures += 1
                # A definition that appears or disappears at the same time is not a problem.
                if error.status not in (NOT_FOUND, CONFLICT) and failures & (failures - 1) == 0:
                    log.error("the default queue cannot be created: %s", one_line(error))
                await clock.sleep(_BACKOFF.delay(failures, rng))

    async def make(self, resource: Resource) -> None:
        """Creates both queues. Raises ApiError, such as NOT_FOUND if the resource was removed."""
        # kube-batch has no queue hierarchy, so it has no root.
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
            # Without Volcano's controllers nothing else opens the queue.
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


async def _first_found(places: Sequence[Reflector]) -> Resource:
    """Waits for the first of the resources that the API server has."""
    waits = [asyncio.ensure_future(place.found.wait()) for place in places]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end_tasks(*waits)
    return next(place.resource for place in places if place.found.is_set())
