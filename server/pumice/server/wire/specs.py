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
from pumice.server.wire.conversion import (
    NON_EMPTY,
    TEXTS,
    Conversion,
    Field,
    bounded,
    choice,
    optional,
    repeated,
)
from pumice.server.wire.fields import EXACT_LIMIT, FieldError, amount, amounts, sorted_texts
from pumice.server.wire.selectors import (
    NODE_TERM,
    SELECTOR,
    TOLERATION,
    read_node_terms,
    write_node_selector,
)
from pumice.server.wire.topology import TOPOLOGY_POLICIES
from pumice.v1 import pod_pb2

_AMOUNT = Field(lambda path, value: amount(path, value, EXACT_LIMIT), lambda value: value)
_AMOUNTS = Field(lambda path, values: amounts(path, values, EXACT_LIMIT), dict)
_PROTOCOLS = {
    pod_pb2.PORT_PROTOCOL_UNSPECIFIED: "TCP",
    pod_pb2.PORT_PROTOCOL_TCP: "TCP",
    pod_pb2.PORT_PROTOCOL_UDP: "UDP",
    pod_pb2.PORT_PROTOCOL_SCTP: "SCTP",
}


def _read_port(path: str, port: int) -> int:
    if not 1 <= port <= 65535:
        raise FieldError(path, f"{port} is not between 1 and 65535")
    return port


_AFFINITY_TERM = Conversion(
    PodAffinityTerm,
    pod_pb2.PodAffinityTerm,
    topology_key=NON_EMPTY,
    selector=optional(SELECTOR),
    namespaces=TEXTS,
    namespace_selector=optional(SELECTOR),
)
_WEIGHTED_AFFINITY_TERM = Conversion(
    WeightedPodAffinityTerm, pod_pb2.WeightedPodAffinityTerm, term=_AFFINITY_TERM
)
_SPREAD_CONSTRAINT = Conversion(
    SpreadConstraint,
    pod_pb2.SpreadConstraint,
    topology_key=NON_EMPTY,
    max_skew=bounded(1),
    selector=optional(SELECTOR),
    min_domains=optional(bounded(1), absent=1),
    honor_node_affinity=optional(absent=True),
)
_HOST_PORT = Conversion(
    HostPort,
    pod_pb2.HostPort,
    protocol=choice(_PROTOCOLS),
    port=Field(_read_port, lambda port: port),
)
_CONTAINER = Conversion(
    ContainerResources,
    pod_pb2.ContainerResources,
    milli_cpu=_AMOUNT,
    limits=_AMOUNTS,
    requests=_AMOUNTS,
)
SPEC = Conversion(
    PodSpec,
    pod_pb2.PodSpec,
    requests=_AMOUNTS,
    non_zero_milli_cpu=_AMOUNT,
    non_zero_memory_bytes=_AMOUNT,
    container_milli_cpu=optional(_AMOUNT),
    container_memory_bytes=optional(_AMOUNT),
    node_selector=Field(lambda _path, values: sorted_texts(values), dict),
    required_node_terms=optional(
        Field(lambda path, message: read_node_terms(path, message.terms), write_node_selector)
    ),
    preferred_node_terms=repeated(
        Conversion(WeightedNodeTerm, pod_pb2.WeightedNodeTerm, term=NODE_TERM)
    ),
    required_affinity=repeated(_AFFINITY_TERM),
    required_anti_affinity=repeated(_AFFINITY_TERM),
    preferred_affinity=repeated(_WEIGHTED_AFFINITY_TERM),
    preferred_anti_affinity=repeated(_WEIGHTED_AFFINITY_TERM),
    tolerations=repeated(TOLERATION),
    spread_constraints=repeated(_SPREAD_CONSTRAINT),
    host_ports=repeated(_HOST_PORT),
    images=TEXTS,
    container_count=optional(bounded(0), absent=1),
    volumes=repeated(Conversion(PodVolume, pod_pb2.PodVolume, claim_name=NON_EMPTY)),
    resource_claims=repeated(
        Conversion(PodResourceClaim, pod_pb2.PodResourceClaim, name=NON_EMPTY)
    ),
    scheduling_gates=TEXTS,
    numa_policy=choice(TOPOLOGY_POLICIES),
    containers=repeated(_CONTAINER),
    limit_milli_cpu=bounded(0),
    limit_memory_bytes=bounded(0),
)


def read_spec(message: pod_pb2.PodSpec) -> PodSpec:
    return SPEC.read("spec", message)


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
