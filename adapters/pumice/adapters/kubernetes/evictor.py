"""Evicts pods as Volcano does: writes conditions with the reason, then deletes the pod."""

from typing import Any, Final

import msgspec

from pumice.adapters.kubernetes.errors import ApiError, KubernetesError
from pumice.adapters.kubernetes.object_head import HEAD
from pumice.adapters.kubernetes.quantities import shown_time
from pumice.adapters.kubernetes.resources import PODS
from pumice.adapters.kubernetes.results import result_of, result_of_write
from pumice.adapters.kubernetes.session import METADATA_ONLY, STRATEGIC, ApiSession, Fence
from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.world import DONE, ApplyResult
from pumice.v1.decision_pb2 import Evict

_ENCODE: Final = msgspec.json.Encoder().encode


class KubernetesEvictor:
    """Deletes pods. The uid, and the version with the conditions, are preconditions."""

    def __init__(
        self, api: ApiSession, clock: Clock, fence: Fence, scheduler: str, seconds: float
    ) -> None:
        self._api, self._clock, self._fence = api, clock, fence
        self._scheduler, self._seconds = scheduler, seconds

    async def evict(self, order: Evict) -> ApplyResult:
        try:
            version = await self._write_conditions(order)
            await self._delete(order, version)
        except ApiError as error:
            path = PODS.path(order.namespace, order.name)
            return await result_of_write(error, self._api, path, order.uid, self._seconds)
        except KubernetesError as error:
            return result_of(error)
        return DONE

    async def _write_conditions(self, order: Evict) -> str:
        """Writes the conditions; returns the new version of the pod."""
        now = shown_time(self._clock.unix_ms() * 1_000_000)
        target = f" to make room for {order.for_job}" if order.for_job else ""
        conditions = [
            _condition("Ready", "False", "Evict", order.reason, now),
            _condition(
                "DisruptionTarget",
                "True",
                "PreemptionByScheduler",
                f"{self._scheduler}: {order.reason or 'evicted'}{target}",
                now,
            ),
        ]
        patch = {"metadata": {"uid": order.uid}, "status": {"conditions": conditions}}
        body = await self._api.call(
            "PATCH",
            PODS.path(order.namespace, order.name, "status"),
            _ENCODE(patch),
            content_type=STRATEGIC,
            accept=METADATA_ONLY,
            seconds=self._seconds,
            fence=self._fence,
        )
        return HEAD.decode(body).metadata.resource_version

    async def _delete(self, order: Evict, version: str) -> None:
        preconditions = {"uid": order.uid, "resourceVersion": version}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        await self._api.call(
            "DELETE",
            PODS.path(order.namespace, order.name),
            _ENCODE(options),
            accept=METADATA_ONLY,
            seconds=self._seconds,
            fence=self._fence,
        )


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
    }
