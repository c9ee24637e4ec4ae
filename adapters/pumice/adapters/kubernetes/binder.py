"""Binds pods: volumes, claims for devices and locks of nodes first, then the pod."""

from typing import Final

import msgspec

from pumice.adapters.kubernetes.confirmations import BindConfirmations
from pumice.adapters.kubernetes.device_claims import DeviceClaimBinder
from pumice.adapters.kubernetes.errors import (
    CONFLICT,
    ApiError,
    KubernetesError,
    NamespaceTerminatingError,
    one_line,
)
from pumice.adapters.kubernetes.node_locks import NodeLockBinder, lock_of
from pumice.adapters.kubernetes.object_index import ObjectIndex
from pumice.adapters.kubernetes.reading import ObjectReader
from pumice.adapters.kubernetes.resources import PODS
from pumice.adapters.kubernetes.results import result_of
from pumice.adapters.kubernetes.session import ApiSession, Fence
from pumice.adapters.kubernetes.volumes import VolumeBinder
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import DONE, ApplyCode, ApplyResult, ReadError
from pumice.v1.decision_pb2 import Bind

_ENCODE: Final = msgspec.json.Encoder().encode
# How long a bind waits for the watch to show that a namespace is terminating.
_TERMINATING_SECONDS: Final = 2.0


class KubernetesBinder:
    """Posts bindings with the pod's uid as a precondition."""

    def __init__(
        self,
        api: ApiSession,
        reader: ObjectReader,
        volumes: VolumeBinder,
        claims: DeviceClaimBinder,
        locks: NodeLockBinder,
        index: ObjectIndex,
        metrics: Metrics,
        fence: Fence,
        seconds: float,
        confirmations: BindConfirmations,
    ) -> None:
        self._confirmations = confirmations
        self._api, self._reader, self._volumes, self._claims = api, reader, volumes, claims
        self._locks = locks
        self._index, self._metrics = index, metrics
        self._fence, self._seconds = fence, seconds

    async def bind(self, order: Bind) -> ApplyResult:
        result = await self._prepared(order)
        if result.code is ApplyCode.DONE:
            result = await self._post(order)
        elif result.code is ApplyCode.WAITING:
            return result
        if order.volumes:
            await self._volumes.settle(order, result)
        if order.resource_claims:
            await self._claims.settle(order, result)
        if lock_of(order):
            await self._locks.settle(order, result)
        return result

    async def _prepared(self, order: Bind) -> ApplyResult:
        """DONE: everything that the pod needs on its node is reserved."""
        if order.volumes:
            result = await self._volumes.prepare(order)
            if result.code is not ApplyCode.DONE:
                return result
        if order.resource_claims:
            result = await self._claims.prepare(order)
            if result.code is not ApplyCode.DONE:
                return result
        # The lock is last, because other pods wait while a node is locked.
        return await self._locks.prepare(order) if lock_of(order) else DONE

    async def _post(self, order: Bind) -> ApplyResult:
        path = PODS.path(order.namespace, order.name, "binding")
        self._confirmations.begin(order)
        try:
            await self._api.call(
                "POST", path, body_of(order), seconds=self._seconds, fence=self._fence
            )
        except NamespaceTerminatingError as error:
            self._metrics.count("terminating_namespaces", call="bind")
            return self._refused(order, error)
        except ApiError as error:
            if error.status == CONFLICT:
                return await self._why_conflict(order, error)
            return result_of(error)
        except KubernetesError as error:
            return result_of(error)
        finally:
            self._confirmations.end()
        return DONE

    def _refused(self, order: Bind, error: NamespaceTerminatingError) -> ApplyResult:
        """The pod is about to be deleted. Until the watch shows it, another attempt cannot succeed."""
        if order.namespace in self._index.terminating:
            return ApplyResult(ApplyCode.NOT_FOUND, one_line(error))
        return ApplyResult(
            ApplyCode.WAITING, one_line(error), retry_after_seconds=_TERMINATING_SECONDS
        )

    async def _why_conflict(self, order: Bind, error: ApiError) -> ApplyResult:
        """Reads the pod to find out why the API server reports a conflict."""
        try:
            reading = await self._reader.read_pod(order.namespace, order.name)
        except ReadError:
            return result_of(error)
        if reading.object is None:
            return ApplyResult(ApplyCode.NOT_FOUND, version=reading.version)
        pod = reading.object.pod
        if pod.uid != order.uid:
            return ApplyResult(ApplyCode.OTHER_UID, version=reading.version)
        if pod.node_name:
            return ApplyResult(ApplyCode.PLACED, node=pod.node_name, version=reading.version)
        if pod.terminating:
            return ApplyResult(ApplyCode.NOT_FOUND, "the pod is being deleted", "", reading.version)
        return result_of(error)


def body_of(order: Bind) -> bytes:
    metadata: dict[str, object] = {
        "namespace": order.namespace,
        "name": order.name,
        "uid": order.uid,
    }
    if order.annotations:
        metadata["annotations"] = dict(order.annotations)
    return _ENCODE(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": order.node},
        }
    )
