"""NodeShards, nodes and pods, as far as the sharding controller reads them."""

from typing import Final

import msgspec

from pumice.controllers.runtime.objects import ApiObject
from pumice.manifests.errors import FieldError
from pumice.manifests.quantities import Quantity, nanos

MIRROR: Final = "kubernetes.io/config.mirror"


class _ShardSpec(msgspec.Struct, rename="camel"):
    nodes_desired: list[str] | None = None


class NodeShard(ApiObject):
    """The nodes of one scheduler. A NodeShard has the name of its scheduler."""

    spec: _ShardSpec = msgspec.field(default_factory=_ShardSpec)

    @property
    def nodes(self) -> list[str]:
        return self.spec.nodes_desired or []


class Amounts(msgspec.Struct, gc=False):
    """CPU and memory of a node or a container."""

    cpu: Quantity = 0
    memory: Quantity = 0

    @property
    def nanos(self) -> tuple[int, int]:
        """Both in billionths of a unit; an invalid amount is 0."""
        return _nanos(self.cpu), _nanos(self.memory)


def _nanos(quantity: Quantity) -> int:
    try:
        return max(0, nanos(quantity))
    except FieldError:
        return 0


class _NodeStatus(msgspec.Struct):
    capacity: Amounts = msgspec.field(default_factory=Amounts)


class Node(ApiObject):
    """A node."""

    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


class _Resources(msgspec.Struct, gc=False):
    requests: Amounts | None = None


class _Container(msgspec.Struct, gc=False):
    resources: _Resources | None = None


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    containers: list[_Container] | None = None


class _PodStatus(msgspec.Struct, gc=False):
    phase: str = ""


class Pod(ApiObject):
    """A pod on a node."""

    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)

    @property
    def requested(self) -> tuple[int, int]:
        """The CPU and memory that the pod requests on its node, in billionths."""
        if self.status.phase in ("Succeeded", "Failed") or self.metadata.annotation(MIRROR):
            return 0, 0
        cpu = memory = 0
        for container in self.spec.containers or ():
            if container.resources is not None and container.resources.requests is not None:
                one = container.resources.requests.nanos
                cpu, memory = cpu + one[0], memory + one[1]
        return cpu, memory
