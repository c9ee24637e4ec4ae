"""Reads single objects afresh."""

import msgspec

from pumice.adapters.kubernetes.errors import NOT_FOUND, ApiError, KubernetesError, one_line
from pumice.adapters.kubernetes.reflector import Head
from pumice.adapters.kubernetes.resources import PODS, Resource, resources_of
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.objects import KindNumber
from pumice.adapters.runtime.world import ReadError, Reading
from pumice.manifests import ManifestError, decode

_HEAD = msgspec.json.Decoder(Head)


class ObjectReader:
    """Reads pods, and any other object that is watched."""

    def __init__(self, api: ApiSession, seconds: float) -> None:
        self._api, self._seconds = api, seconds

    async def read_pod(self, namespace: str, name: str) -> Reading:
        return await self._read(PODS, namespace, name)

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
            version = _HEAD.decode(body).metadata.resource_version
            return Reading(decode(resource.kind, body), version)
        except (ManifestError, msgspec.MsgspecError) as error:
            raise ReadError(one_line(error)) from error
