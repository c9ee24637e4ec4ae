"""Converts pod specs. Equal specs are read once."""

from __future__ import annotations

from pumice.core.model.pod import (
    ContainerResources,
    HostPort,
    PodAffinityTerm,
    PodResourceClaim,
    PodSpec,
    PodVolume,
    SpreadConstraint,
    WeightedNodeTerm,
    WeightedPodAffinityTerm,
)
from pumice.server.wire.fields import (
    EXACT_LIMIT,
    FieldError,
    amount,
    amounts,
    at_least,
    enum_value,
    non_empty,
    sorted_texts,
)
from pumice.server.wire.selectors import (
    read_node_term,
    read_node_terms,
    read_selector,
    read_toleration,
    write_node_selector,
    write_node_term,
    write_selector,
    write_toleration,
)
from pumice.server.wire.topology import TOPOLOGY_POLICIES, TOPOLOGY_POLICY_NUMBERS
from pumice.v1 import pod_pb2

_PROTOCOLS = {
    pod_pb2.PORT_PROTOCOL_UNSPECIFIED: "TCP",
    pod_pb2.PORT_PROTOCOL_TCP: "TCP",
    pod_pb2.PORT_PROTOCOL_UDP: "UDP",
    pod_pb2.PORT_PROTOCOL_SCTP: "SCTP",
}
_PROTOCOL_NUMBERS = {word: number for number, word in _PROTOCOLS.items()}


def _read_affinity(path: str, message: pod_pb2.PodAffinityTerm) -> PodAffinityTerm:
    has = message.HasField
    return PodAffinityTerm(
        non_empty(f"{path}.topology_key", message.topology_key),
        read_selector(f"{path}.selector", message.selector) if has("selector") else None,
        tuple(message.namespaces),
        read_selector(f"{path}.namespace_selector", message.namespace_selector)
        if has("namespace_selector")
        else None,
    )


def _write_affinity(term: PodAffinityTerm) -> pod_pb2.PodAffinityTerm:
    return pod_pb2.PodAffinityTerm(
        topology_key=term.topology_key,
        selector=write_selector(term.selector),
        namespaces=term.namespaces,
        namespace_selector=write_selector(term.namespace_selector),
    )


def _read_weighted(path: str, message: pod_pb2.WeightedPodAffinityTerm) -> WeightedPodAffinityTerm:
    return WeightedPodAffinityTerm(message.weight, _read_affinity(f"{path}.term", message.term))


def _write_weighted(weighted: WeightedPodAffinityTerm) -> pod_pb2.WeightedPodAffinityTerm:
    term = _write_affinity(weighted.term)
    return pod_pb2.WeightedPodAffinityTerm(weight=weighted.weight, term=term)


def _read_spread(path: str, message: pod_pb2.SpreadConstraint) -> SpreadConstraint:
    has = message.HasField
    return SpreadConstraint(
        non_empty(f"{path}.topology_key", message.topology_key),
        at_least(f"{path}.max_skew", message.max_skew, 1),
        message.required,
        read_selector(f"{path}.selector", message.selector) if has("selector") else None,
        at_least(f"{path}.min_domains", message.min_domains, 1) if has("min_domains") else 1,
        message.honor_node_affinity if has("honor_node_affinity") else True,
        message.honor_node_taints,
    )


def _write_spread(constraint: SpreadConstraint) -> pod_pb2.SpreadConstraint:
    return pod_pb2.SpreadConstraint(
        topology_key=constraint.topology_key,
        max_skew=constraint.max_skew,
        required=constraint.required,
        selector=write_selector(constraint.selector),
        min_domains=constraint.min_domains,
        honor_node_affinity=constraint.honor_node_affinity,
        honor_node_taints=constraint.honor_node_taints,
    )


def _read_port(path: str, message: pod_pb2.HostPort) -> HostPort:
    if not 1 <= message.port <= 65535:
        raise FieldError(f"{path}.port", f"{message.port} is not between 1 and 65535")
    return HostPort(
        enum_value(f"{path}.protocol", message.protocol, _PROTOCOLS), message.ip, message.port
    )


def _read_container(path: str, message: pod_pb2.ContainerResources) -> ContainerResources:
    return ContainerResources(
        message.init,
        amount(f"{path}.milli_cpu", message.milli_cpu, EXACT_LIMIT),
        amounts(f"{path}.limits", message.limits, EXACT_LIMIT),
        amounts(f"{path}.requests", message.requests, EXACT_LIMIT),
        message.name,
        message.sidecar,
    )


def _write_container(container: ContainerResources) -> pod_pb2.ContainerResources:
    return pod_pb2.ContainerResources(
        init=container.init,
        milli_cpu=container.milli_cpu,
        limits=dict(container.limits),
        requests=dict(container.requests),
        name=container.name,
        sidecar=container.sidecar,
    )


def read_spec(message: pod_pb2.PodSpec) -> PodSpec:
    has = message.HasField
    return PodSpec(
        requests=amounts("spec.requests", message.requests, EXACT_LIMIT),
        non_zero_milli_cpu=amount(
            "spec.non_zero_milli_cpu", message.non_zero_milli_cpu, EXACT_LIMIT
        ),
        non_zero_memory_bytes=amount(
            "spec.non_zero_memory_bytes", message.non_zero_memory_bytes, EXACT_LIMIT
        ),
        container_milli_cpu=amount(
            "spec.container_milli_cpu", message.container_milli_cpu, EXACT_LIMIT
        )
        if has("container_milli_cpu")
        else None,
        container_memory_bytes=amount(
            "spec.container_memory_bytes", message.container_memory_bytes, EXACT_LIMIT
        )
        if has("container_memory_bytes")
        else None,
        node_selector=sorted_texts(message.node_selector),
        required_node_terms=read_node_terms(
            "spec.required_node_terms", message.required_node_terms.terms
        )
        if has("required_node_terms")
        else None,
        preferred_node_terms=tuple(
            WeightedNodeTerm(m.weight, read_node_term(f"spec.preferred_node_terms[{i}]", m.term))
            for i, m in enumerate(message.preferred_node_terms)
        ),
        required_affinity=tuple(
            _read_affinity(f"spec.required_affinity[{i}]", m)
            for i, m in enumerate(message.required_affinity)
        ),
        required_anti_affinity=tuple(
            _read_affinity(f"spec.required_anti_affinity[{i}]", m)
            for i, m in enumerate(message.required_anti_affinity)
        ),
        preferred_affinity=tuple(
            _read_weighted(f"spec.preferred_affinity[{i}]", m)
            for i, m in enumerate(message.preferred_affinity)
        ),
        preferred_anti_affinity=tuple(
            _read_weighted(f"spec.preferred_anti_affinity[{i}]", m)
            for i, m in enumerate(message.preferred_anti_affinity)
        ),
        tolerations=tuple(
            read_toleration(f"spec.tolerations[{i}]", m) for i, m in enumerate(message.tolerations)
        ),
        spread_constraints=tuple(
            _read_spread(f"spec.spread_constraints[{i}]", m)
            for i, m in enumerate(message.spread_constraints)
        ),
        host_ports=tuple(
            _read_port(f"spec.host_ports[{i}]", m) for i, m in enumerate(message.host_ports)
        ),
        images=tuple(message.images),
        container_count=at_least("spec.container_count", message.container_count, 0)
        if has("container_count")
        else 1,
        volumes=tuple(
            PodVolume(non_empty(f"spec.volumes[{i}].claim_name", m.claim_name), m.ephemeral)
            for i, m in enumerate(message.volumes)
        ),
        resource_claims=tuple(
            PodResourceClaim(non_empty(f"spec.resource_claims[{i}].name", m.name), m.claim_name)
            for i, m in enumerate(message.resource_claims)
        ),
        scheduling_gates=tuple(message.scheduling_gates),
        scheduler_name=message.scheduler_name,
        priority_class_name=message.priority_class_name,
        never_preempts=message.never_preempts,
        numa_policy=enum_value("spec.numa_policy", message.numa_policy, TOPOLOGY_POLICIES),
        containers=tuple(
            _read_container(f"spec.containers[{i}]", m) for i, m in enumerate(message.containers)
        ),
        guaranteed=message.guaranteed,
        limit_milli_cpu=at_least("spec.limit_milli_cpu", message.limit_milli_cpu, 0),
        limit_memory_bytes=at_least("spec.limit_memory_bytes", message.limit_memory_bytes, 0),
    )


def write_spec(spec: PodSpec) -> pod_pb2.PodSpec:
    return pod_pb2.PodSpec(
        requests=dict(spec.requests),
        non_zero_milli_cpu=spec.non_zero_milli_cpu,
        non_zero_memory_bytes=spec.non_zero_memory_bytes,
        container_milli_cpu=spec.container_milli_cpu,
        container_memory_bytes=spec.container_memory_bytes,
        node_selector=dict(spec.node_selector),
        required_node_terms=write_node_selector(spec.required_node_terms),
        preferred_node_terms=[
            pod_pb2.WeightedNodeTerm(weight=w.weight, term=write_node_term(w.term))
            for w in spec.preferred_node_terms
        ],
        required_affinity=map(_write_affinity, spec.required_affinity),
        required_anti_affinity=map(_write_affinity, spec.required_anti_affinity),
        preferred_affinity=map(_write_weighted, spec.preferred_affinity),
        preferred_anti_affinity=map(_write_weighted, spec.preferred_anti_affinity),
        tolerations=map(write_toleration, spec.tolerations),
        spread_constraints=map(_write_spread, spec.spread_constraints),
        host_ports=[
            pod_pb2.HostPort(protocol=_PROTOCOL_NUMBERS[p.protocol], ip=p.ip, port=p.port)
            for p in spec.host_ports
        ],
        images=spec.images,
        container_count=spec.container_count,
        volumes=[
            pod_pb2.PodVolume(claim_name=v.claim_name, ephemeral=v.ephemeral) for v in spec.volumes
        ],
        resource_claims=[
            pod_pb2.PodResourceClaim(name=c.name, claim_name=c.claim_name)
            for c in spec.resource_claims
        ],
        scheduling_gates=spec.scheduling_gates,
        scheduler_name=spec.scheduler_name,
        priority_class_name=spec.priority_class_name,
        never_preempts=spec.never_preempts,
        numa_policy=TOPOLOGY_POLICY_NUMBERS[spec.numa_policy],
        containers=map(_write_container, spec.containers),
        guaranteed=spec.guaranteed,
        limit_milli_cpu=spec.limit_milli_cpu,
        limit_memory_bytes=spec.limit_memory_bytes,
    )


class SpecTable:
    """Reads specs; equal specs become one object, which pods of a template share."""

    # Larger specs are rare and are not cached.
    LARGEST_KEY_BYTES = 1 << 16

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._by_bytes: dict[bytes, PodSpec] = {}
        # Equal specs can differ in bytes, because maps have no order on the wire.
        self._by_value: dict[PodSpec, PodSpec] = {}

    def __len__(self) -> int:
        return len(self._by_bytes)

    def read(self, message: pod_pb2.PodSpec) -> PodSpec:
        key = message.SerializeToString()
        known = self._by_bytes.get(key)
        if known is not None:
            return known
        read = read_spec(message)
        if len(key) > self.LARGEST_KEY_BYTES:
            return read
        if len(self._by_bytes) >= self._limit:
            # Existing pods keep their specs. Only later pods do not share them.
            self._by_bytes.clear()
            self._by_value.clear()
        spec = self._by_value.setdefault(read, read)
        self._by_bytes[key] = spec
        return spec
