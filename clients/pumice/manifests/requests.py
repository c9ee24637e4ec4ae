"""The total requests of a pod, computed as in Volcano and the Kubernetes scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pumice.manifests.amounts import (
    CPU,
    HUGE_PAGES_PREFIX,
    MEMORY,
    PODS,
    Billionths,
    counted,
    fitting,
)
from pumice.manifests.quantities import nanos, thousandths, whole

# Requests that the scoring plugins of Kubernetes assume for a container without requests.
_DEFAULTS: Final[Billionths] = {CPU: nanos("100m"), MEMORY: nanos("200Mi")}


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """Requests and limits of one container in billionths, with the path of the requests."""

    requests: Billionths
    field: str
    limits: Billionths
    # Whether this is an init container that runs along with the main containers.
    sidecar: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True)
class PodResources:
    """All resource requests of a pod."""

    containers: tuple[ContainerResources, ...]
    init_containers: tuple[ContainerResources, ...] = ()
    # Both are None if the pod has no pod-level resources.
    pod_requests: Billionths | None = None
    pod_limits: Billionths | None = None
    overhead: Billionths | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """Total requests of a pod, in the units of the protocol."""

    requests: dict[str, int]
    non_zero_milli_cpu: int
    non_zero_memory_bytes: int
    # The same without pod-level resources; None if the pod has no pod-level resources.
    container_milli_cpu: int | None = None
    container_memory_bytes: int | None = None


def totals(pod: PodResources) -> Totals:
    pod_level = _pod_level_requests(pod)
    return Totals(
        _requests(pod, pod_level),
        *_cpu_and_memory_of(_non_zero(pod, pod_level)),
        *(_cpu_and_memory_of(_non_zero(pod, {})) if pod_level else ()),
    )


def _cpu_and_memory_of(amounts: Billionths) -> tuple[int, int]:
    return (
        fitting(CPU, thousandths(amounts[CPU]), "spec.containers"),
        fitting(MEMORY, whole(amounts[MEMORY]), "spec.containers"),
    )


def default_requests(requests: Billionths, limits: Billionths) -> dict[str, int]:
    """Requests with the API server's defaults for limits without requests."""
    return {**limits, **requests}


def effective_requests(
    spec: Billionths, actual: Billionths, allocated: Billionths, infeasible: bool
) -> dict[str, int]:
    """Requests during a resize: the maximum of requested and allocated resources.

    A resize that the node has rejected as infeasible does not count.
    """
    result = {} if infeasible else dict(spec)
    for status in (actual, allocated):
        _raise_to(result, status)
    return result


def is_guaranteed(pod: PodResources) -> bool:
    """Whether the QoS class is Guaranteed: requests and limits of CPU and memory are equal."""
    if pod.pod_requests or pod.pod_limits:
        return _is_limited(_pod_level_requests(pod), pod.pod_limits or {})
    return all(
        _is_limited(container.requests, container.limits)
        for container in (*pod.containers, *pod.init_containers)
    )


def _is_limited(requests: Billionths, limits: Billionths) -> bool:
    return all(limits.get(name, 0) > 0 and requests.get(name) == limits[name] for name in _DEFAULTS)


def is_pod_level(name: str) -> bool:
    """Whether this resource is allowed in pod-level requests."""
    return name in {CPU, MEMORY} or name.startswith(HUGE_PAGES_PREFIX)


def _requests(pod: PodResources, pod_level: Billionths) -> dict[str, int]:
    # Volcano rounds the requests of each container before it adds them.
    total = combined(
        [counted(container.requests, container.field) for container in pod.containers],
        [
            (counted(container.requests, container.field), container.sidecar)
            for container in pod.init_containers
        ],
    )
    total[PODS] = total.get(PODS, 0) + 1
    total.update(counted(pod_level, "spec.resources.requests"))
    _add(total, counted(pod.overhead or {}, "spec.overhead"))
    return {name: fitting(name, amount, "spec.containers") for name, amount in total.items()}


def _non_zero(pod: PodResources, pod_level: Billionths) -> dict[str, int]:
    """CPU and memory with defaults for containers without requests; an explicit zero stays zero."""
    defaults = dict(_DEFAULTS)
    if pod_level:
        # Defaults apply only to resources that neither the pod nor any container requests.
        for name in (*pod_level, *_mentioned(pod)):
            defaults.pop(name, None)
    total = combined(
        [_cpu_and_memory(container, defaults) for container in pod.containers],
        [
            (_cpu_and_memory(container, defaults), container.sidecar)
            for container in pod.init_containers
        ],
    )
    total.update(pod_level)
    _add(total, pod.overhead or {})
    return {CPU: total.get(CPU, 0), MEMORY: total.get(MEMORY, 0)}


def _mentioned(pod: PodResources) -> list[str]:
    everything = [*pod.containers, *pod.init_containers]
    names = [name for container in everything for name in container.requests]
    return [*names, *(pod.overhead or ())]


def _cpu_and_memory(container: ContainerResources, defaults: Billionths) -> dict[str, int]:
    asked = {**defaults, **container.requests}
    return {name: asked[name] for name in (CPU, MEMORY) if name in asked}


def _pod_level_requests(pod: PodResources) -> dict[str, int]:
    """Pod-level requests, with the API server's defaults for limits without requests."""
    asked = {
        name: amount for name, amount in (pod.pod_requests or {}).items() if is_pod_level(name)
    }
    if not pod.pod_limits:
        return asked
    by_containers = combined(
        [container.requests for container in pod.containers],
        [(container.requests, container.sidecar) for container in pod.init_containers],
    )
    for source in (by_containers, pod.pod_limits):
        for name, amount in source.items():
            if is_pod_level(name):
                asked.setdefault(name, amount)
    return asked


def combined(
    containers: Iterable[Mapping[str, int]],
    init_containers: Iterable[tuple[Mapping[str, int], bool]],
) -> dict[str, int]:
    """The maximum over the phases of a pod: each init container, and the main containers."""
    total: dict[str, int] = {}
    for container in containers:
        _add(total, container)
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container, is_sidecar in init_containers:
        if is_sidecar:
            _add(total, container)
            _add(sidecars, container)
            _raise_to(peak, sidecars)
        else:
            running = dict(container)
            _add(running, sidecars)
            _raise_to(peak, running)
    _raise_to(total, peak)
    return total


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], least: Mapping[str, int]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, amount), amount)
