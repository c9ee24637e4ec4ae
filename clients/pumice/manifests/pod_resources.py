"""Reads requests and allocated resources of a pod and its containers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from pumice.manifests.amounts import billionths
from pumice.manifests.pod_shapes import (
    ContainerShape,
    ContainerStatusShape,
    PodShape,
    ResourcesShape,
)
from pumice.manifests.quantities import Quantity
from pumice.manifests.requests import (
    ContainerResources,
    PodResources,
    default_requests,
    effective_requests,
)
from pumice.manifests.shapes import decode_part

_QUANTITIES: Final = msgspec.json.Decoder(dict[str, Quantity])
_RESOURCES: Final = msgspec.json.Decoder(ResourcesShape)


def pod_resources(pod: PodShape) -> PodResources:
    return _Reader(pod).resources()


def is_sidecar(container: ContainerShape) -> bool:
    return container.restart_policy == "Always"


def is_resize_infeasible(pod: PodShape) -> bool:
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the resources of one pod."""

    pod: PodShape

    def resources(self) -> PodResources:
        spec = self.pod.spec
        whole = decode_part(_RESOURCES, spec.resources, "spec.resources", ResourcesShape())
        overhead = decode_part(_QUANTITIES, spec.overhead, "spec.overhead", {})
        return PodResources(
            containers=self._containers(),
            init_containers=self._init_containers(),
            pod_requests=billionths(whole.requests, "spec.resources.requests"),
            pod_limits=billionths(whole.limits, "spec.resources.limits"),
            overhead=billionths(overhead, "spec.overhead"),
        )

    def _containers(self) -> tuple[ContainerResources, ...]:
        statuses = {one.name: one for one in self.pod.status.container_statuses}
        return tuple(
            self._container_resources(
                container, f"spec.containers[{index}]", statuses.get(container.name)
            )
            for index, container in enumerate(self.pod.spec.containers)
        )

    def _init_containers(self) -> tuple[ContainerResources, ...]:
        statuses = {one.name: one for one in self.pod.status.init_container_statuses}
        return tuple(
            self._container_resources(
                container,
                f"spec.initContainers[{index}]",
                # Other init containers run to completion and cannot be resized.
                statuses.get(container.name) if is_sidecar(container) else None,
                sidecar=is_sidecar(container),
            )
            for index, container in enumerate(self.pod.spec.init_containers)
        )

    def _container_resources(
        self,
        container: ContainerShape,
        field: str,
        status: ContainerStatusShape | None,
        sidecar: bool = False,
    ) -> ContainerResources:
        where = f"{field}.resources"
        shape = decode_part(_RESOURCES, container.resources, where, ResourcesShape())
        limits = billionths(shape.limits, f"{where}.limits")
        asked = default_requests(billionths(shape.requests, f"{where}.requests"), limits)
        if status is not None and status.resources:
            asked = self._resized(asked, status)
        return ContainerResources(
            asked, f"{where}.requests", limits, sidecar=sidecar, name=container.name
        )

    def _resized(self, asked: Mapping[str, int], status: ContainerStatusShape) -> dict[str, int]:
        where = f"status.containerStatuses[{status.name}]"
        actual = decode_part(_RESOURCES, status.resources, f"{where}.resources", ResourcesShape())
        allocated: dict[str, Quantity] = decode_part(
            _QUANTITIES, status.allocated_resources, f"{where}.allocatedResources", {}
        )
        return effective_requests(
            asked,
            billionths(actual.requests, f"{where}.resources.requests"),
            billionths(allocated, f"{where}.allocatedResources"),
            infeasible=is_resize_infeasible(self.pod),
        )
