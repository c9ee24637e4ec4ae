"""The total limits of a pod."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from pumice.manifests.amounts import CPU, MEMORY, billionths, counted
from pumice.manifests.pod_resources import is_sidecar
from pumice.manifests.pod_shapes import PodShape, ResourcesShape
from pumice.manifests.shapes import decode_part

_RESOURCES: Final = msgspec.json.Decoder(ResourcesShape)
_LIMITED: Final = (CPU, MEMORY)


@dataclass(frozen=True, slots=True)
class PodLimits:
    """Limits of a pod's CPU and memory; 0 means no limit."""

    milli_cpu: int = 0
    memory_bytes: int = 0


def pod_limits(pod: PodShape) -> PodLimits:
    spec = pod.spec
    running = [
        _limits(one.resources, f"spec.containers[{i}].resources")
        for i, one in enumerate(spec.containers)
    ]
    initial = [
        (_limits(one.resources, f"spec.initContainers[{i}].resources"), is_sidecar(one))
        for i, one in enumerate(spec.init_containers)
    ]
    own = _limits(spec.resources, "spec.resources")
    total = {name: own.get(name) or _largest(name, running, initial) for name in _LIMITED}
    whole = counted(total, "spec.containers.resources.limits")
    return PodLimits(whole.get(CPU, 0), whole.get(MEMORY, 0))


def _limits(raw: msgspec.Raw, field: str) -> Mapping[str, int]:
    """Limits in billionths."""
    shape = decode_part(_RESOURCES, raw, field, ResourcesShape())
    return billionths(shape.limits, f"{field}.limits")


def _largest(
    name: str, running: list[Mapping[str, int]], initial: list[tuple[Mapping[str, int], bool]]
) -> int:
    """The larger of the main containers' total and the largest total during initialisation."""
    most = sidecars = 0
    for limits, is_side in initial:
        with_it = sidecars + limits.get(name, 0)
        most = max(most, with_it)
        sidecars = with_it if is_side else sidecars
    return max(most, sidecars + sum(limits.get(name, 0) for limits in running))
