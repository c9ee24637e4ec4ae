"""Resources of each container, for plugins that choose devices or CPUs for containers."""

from __future__ import annotations

from collections.abc import Iterator

from pumice.manifests.amounts import CPU, Billionths, counted, fitting, is_extended
from pumice.manifests.quantities import thousandths
from pumice.manifests.requests import ContainerResources, PodResources, is_guaranteed
from pumice.v1 import pod_pb2


def fill_containers(spec: pod_pb2.PodSpec, pod: PodResources) -> None:
    """Fills the containers of a pod that is Guaranteed or requests extended resources."""
    spec.guaranteed = is_guaranteed(pod)
    messages = list(_messages(pod))
    if spec.guaranteed or any(message.limits or message.requests for message in messages):
        spec.containers.extend(messages)


def _messages(pod: PodResources) -> Iterator[pod_pb2.ContainerResources]:
    for container in pod.containers:
        yield _message(container)
    for container in pod.init_containers:
        message = _message(container)
        message.init, message.sidecar = True, container.sidecar
        yield message


def _message(container: ContainerResources) -> pod_pb2.ContainerResources:
    limits = _extended(container.limits, container.field)
    requests = _extended(container.requests, container.field)
    milli_cpu = thousandths(container.requests.get(CPU, 0))
    return pod_pb2.ContainerResources(
        name=container.name,
        milli_cpu=fitting(CPU, milli_cpu, container.field),
        limits=limits,
        requests={name: amount for name, amount in requests.items() if name not in limits},
    )


def _extended(amounts: Billionths, field: str) -> dict[str, int]:
    return counted({name: amounts[name] for name in amounts if is_extended(name)}, field)
