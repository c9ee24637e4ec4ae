"""Reads single objects from the API server."""

import msgspec

from pumice.adapters.kubernetes.errors import NOT_FOUND, ApiError, KubernetesError, one_line
from pumice.adapters.kubernetes.object_head import HEAD
from pumice.adapters.kubernetes.object_index import ObjectIndex
from pumice.adapters.kubernetes.resources import PODS, Resource, resources_of
from pumice.adapters.kubernetes.selection import Selection
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.objects import KindNumber
from pumice.adapters.runtime.world import ReadError, Reading
from pumice.manifests import ManifestError, decode


class ObjectReader:
    """Reads objects. An object that is not selected counts as deleted."""

    def __init__(
        self, api: ApiSession, selection: Selection, index: ObjectIndex, seconds: float
    ) -> None:
        self._api, self._selection, self._index = api, selection, index
        self._seconds = seconds

    async def read_pod(self, namespace: str, name: str) -> Reading:
        reading = await self._read(PODS, namespace, name)
        found = reading.object
        if found is not None and not found.pod.node_name and namespace in self._index.terminating:
            return Reading(None, reading.version)
        return reading

    async def read_object(self, kind: KindNumber, namespace: str, name: str) -> Reading:
        for resource in resources_of(kind):
            reading = await self._read(resource, namespace, name)
            if reading.object is not None:
                return reading
        return Reading(None)

    async def _read(self, resource: Resource, namespace: str, name: str) -> Reading:
        try:
            body = await self._api.call(
                "GET", resource.path(namespace, name), seconds=self._seconds
            )
        except ApiError as error:
            if error.status == NOT_FOUND:
                return Reading(None)
            raise ReadError(one_line(error)) from error
        except KubernetesError as error:
            raise ReadError(one_line(error)) from error
        try:
            head = HEAD.decode(body).metadata
            found = decode(resource.kind, body, group=resource.group)
            self._index.restore_status(head.uid, found)
        except (ManifestError, msgspec.MsgspecError) as error:
            raise ReadError(one_line(error)) from error
        owner = head.owner_references[0].name if head.owner_references else head.name
        is_ours = self._selection.selects(found, owner)
        return Reading(found if is_ours else None, head.resource_version)
