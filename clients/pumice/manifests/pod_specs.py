"""Translates pod specs, once for all pods of a template.

Pods of one template differ in names, nodes, labels and token volumes, but rarely in their requests.
The translated message is cached by the raw text of its sources, so most pods need only a lookup and
a copy.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import msgspec
from msgspec import Raw

from pumice.manifests.affinity import LABEL_KEYS_SUFFIX, fill_affinity, fill_spread
from pumice.manifests.annotations import NUMA_POLICY
from pumice.manifests.container_resources import fill_containers
from pumice.manifests.errors import FieldError
from pumice.manifests.pod_limits import pod_limits
from pumice.manifests.pod_resources import is_resize_infeasible, is_sidecar, pod_resources
from pumice.manifests.pod_shapes import (
    NamedShape,
    PodShape,
    PodSpecShape,
    PortShape,
    ResourceClaimShape,
)
from pumice.manifests.requests import totals
from pumice.manifests.selectors import TolerationShape, tolerations
from pumice.manifests.shapes import decode_part
from pumice.manifests.topology import TOPOLOGY_POLICIES
from pumice.v1 import pod_pb2
from pumice.v1.topology_pb2 import TOPOLOGY_POLICY_UNSPECIFIED

_LABELS: Final = msgspec.json.Decoder(dict[str, str])
_PORTS: Final = msgspec.json.Decoder(tuple[PortShape, ...])
_TOLERATIONS: Final = msgspec.json.Decoder(tuple[TolerationShape, ...])
_CLAIMS: Final = msgspec.json.Decoder(tuple[ResourceClaimShape, ...])
_NAMES: Final = msgspec.json.Decoder(tuple[NamedShape, ...])

_ANYWHERE: Final = "0.0.0.0"
_PROTOCOLS: Final = {
    "TCP": pod_pb2.PORT_PROTOCOL_TCP,
    "UDP": pod_pb2.PORT_PROTOCOL_UDP,
    "SCTP": pod_pb2.PORT_PROTOCOL_SCTP,
}

_MOST_TEMPLATES: Final = 8192
_templates: dict[Hashable, pod_pb2.PodSpec] = {}


def pod_spec(pod: PodShape) -> pod_pb2.PodSpec:
    """The cached spec of a pod, shared between pods; callers must not change it."""
    key = _key(pod)
    spec = _templates.get(key)
    if spec is None:
        spec = _translated(pod)
        if len(_templates) >= _MOST_TEMPLATES:
            _templates.clear()
        _templates[key] = spec
    return spec


def _key(pod: PodShape) -> Hashable:
    """The sources of the spec as a cache key."""
    spec, status, annotations = pod.spec, pod.status, pod.metadata.annotations
    raws: list[Raw] = [
        spec.affinity,
        spec.topology_spread_constraints,
        spec.tolerations,
        spec.node_selector,
        spec.overhead,
        spec.resources,
        spec.scheduling_gates,
        spec.resource_claims,
        status.resource_claim_statuses,
    ]
    words: list[str | None] = [
        spec.scheduler_name,
        spec.priority_class_name,
        spec.preemption_policy,
        annotations.get(NUMA_POLICY),
    ]
    for container in (*spec.containers, *spec.init_containers):
        raws += (container.resources, container.ports)
        words += (container.name, container.image, container.restart_policy)
    resized = False
    for one in (*status.container_statuses, *status.init_container_statuses):
        if one.resources:
            raws += (one.resources, one.allocated_resources)
            words.append(one.name)
            resized = True
    # JSON has no zero byte, so different texts cannot be equal after the join.
    text = b"\0".join(raws)
    return (
        text,
        tuple(words),
        len(spec.containers),
        spec.host_network,
        resized and is_resize_infeasible(pod),
        tuple(sorted(pod.metadata.labels.items())) if LABEL_KEYS_SUFFIX in text else None,
        # The claim of an ephemeral volume is named after the pod.
        tuple(
            [
                (volume, pod.metadata.name if volume.ephemeral is not None else "")
                for volume in spec.volumes
                if volume.restricts_placement
            ]
        ),
    )


def _translated(pod: PodShape) -> pod_pb2.PodSpec:
    shape, labels = pod.spec, pod.metadata.labels
    resources = pod_resources(pod)
    demand = totals(resources)
    limits = pod_limits(pod)
    tolerated = decode_part(_TOLERATIONS, shape.tolerations, "spec.tolerations", ())
    spec = pod_pb2.PodSpec(
        requests=demand.requests,
        non_zero_milli_cpu=demand.non_zero_milli_cpu,
        non_zero_memory_bytes=demand.non_zero_memory_bytes,
        container_milli_cpu=demand.container_milli_cpu,
        container_memory_bytes=demand.container_memory_bytes,
        node_selector=decode_part(_LABELS, shape.node_selector, "spec.nodeSelector", {}),
        tolerations=tolerations(tolerated, "spec.tolerations"),
        host_ports=_host_ports(shape),
        images=_images(shape),
        container_count=len(shape.containers) + len(shape.init_containers),
        volumes=_volumes(pod),
        resource_claims=_resource_claims(pod),
        scheduling_gates=[
            gate.name
            for gate in decode_part(_NAMES, shape.scheduling_gates, "spec.schedulingGates", ())
        ],
        scheduler_name=shape.scheduler_name,
        priority_class_name=shape.priority_class_name,
        never_preempts=shape.preemption_policy == "Never",
        numa_policy=TOPOLOGY_POLICIES.get(
            pod.metadata.annotations.get(NUMA_POLICY, ""), TOPOLOGY_POLICY_UNSPECIFIED
        ),
        limit_milli_cpu=limits.milli_cpu,
        limit_memory_bytes=limits.memory_bytes,
    )
    fill_containers(spec, resources)
    fill_affinity(spec, shape.affinity, labels)
    fill_spread(spec, shape.topology_spread_constraints, labels)
    return spec


def _host_ports(spec: PodSpecShape) -> list[pod_pb2.HostPort]:
    result = []
    named = [(one, f"spec.containers[{index}]") for index, one in enumerate(spec.containers)]
    named += [
        (one, f"spec.initContainers[{index}]")
        for index, one in enumerate(spec.init_containers)
        if is_sidecar(one)
    ]
    for container, field in named:
        ports = decode_part(_PORTS, container.ports, f"{field}.ports", ())
        for index, port in enumerate(ports):
            host_port = _host_port(port, f"{field}.ports[{index}]", spec.host_network)
            if host_port is not None:
                result.append(host_port)
    return result


def _host_port(port: PortShape, field: str, host_network: bool) -> pod_pb2.HostPort | None:
    # With host networking every container port is a host port; the API server sets hostPort.
    number = port.host_port or (port.container_port if host_network else 0)
    if number == 0:
        return None
    if not 0 < number <= 65535:
        raise FieldError(f"{field}.hostPort", f"{number} given", "1 to 65535")
    protocol = port.protocol or "TCP"
    if protocol not in _PROTOCOLS:
        raise FieldError(f"{field}.protocol", f"{protocol!r} is unknown", ", ".join(_PROTOCOLS))
    return pod_pb2.HostPort(
        protocol=_PROTOCOLS[protocol], ip=port.host_ip or _ANYWHERE, port=number
    )


def _images(spec: PodSpecShape) -> list[str]:
    names = [one.image for one in (*spec.init_containers, *spec.containers)]
    names += [volume.image.reference for volume in spec.volumes if volume.image is not None]
    return [with_tag(name) for name in names if name]


def with_tag(image: str) -> str:
    """The image with its default tag; a digest counts as a tag."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def _volumes(pod: PodShape) -> list[pod_pb2.PodVolume]:
    result = []
    for index, volume in enumerate(pod.spec.volumes):
        if volume.persistent_volume_claim is not None:
            claim = volume.persistent_volume_claim.claim_name
            if not claim:
                raise FieldError(
                    f"spec.volumes[{index}].persistentVolumeClaim.claimName", "is missing"
                )
            result.append(pod_pb2.PodVolume(claim_name=claim))
        elif volume.ephemeral is not None:
            claim = f"{pod.metadata.name}-{volume.name}"
            result.append(pod_pb2.PodVolume(claim_name=claim, ephemeral=True))
    return result


def _resource_claims(pod: PodShape) -> list[pod_pb2.PodResourceClaim]:
    shapes = decode_part(_CLAIMS, pod.spec.resource_claims, "spec.resourceClaims", ())
    statuses = decode_part(
        _CLAIMS, pod.status.resource_claim_statuses, "status.resourceClaimStatuses", ()
    )
    made = {status.name: status.resource_claim_name for status in statuses}
    return [
        pod_pb2.PodResourceClaim(
            name=claim.name, claim_name=claim.resource_claim_name or made.get(claim.name, "")
        )
        for claim in shapes
        # If a template needed no claim, the status has no name.
        if claim.resource_claim_name or made.get(claim.name) != ""
    ]
