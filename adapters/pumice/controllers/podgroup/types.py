"""Pods without a PodGroup, and their owners."""

from typing import Any, Final

import msgspec

from pumice.controllers.job.types import GROUP_NAME
from pumice.controllers.runtime.objects import Manifest, Watched

PREFIX: Final = "podgroup-"
MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
# Annotations of owners with this prefix go to the PodGroup.
INHERITED: Final = "volcano.sh/"
PREEMPTABLE: Final = "volcano.sh/preemptable"
COOLDOWN: Final = "volcano.sh/cooldown-time"
REVOCABLE: Final = "volcano.sh/revocable-zone"
JDB_MIN: Final = "volcano.sh/jdb-min-available"
JDB_MAX: Final = "volcano.sh/jdb-max-unavailable"
TOPOLOGY_MODE: Final = "volcano.sh/network-topology-mode"
TOPOLOGY_TIER: Final = "volcano.sh/network-topology-highest-tier"
_FINISHED: Final = frozenset({"Succeeded", "Failed"})


class _Container(msgspec.Struct, rename="camel", omit_defaults=True):
    resources: dict[str, Any] | None = None
    restart_policy: str = ""


class PodSpec(msgspec.Struct, rename="camel", omit_defaults=True):
    """What a pod needs."""

    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: dict[str, Any] | None = None
    priority_class_name: str = ""

    def to_dict(self) -> Manifest:
        found: Manifest = msgspec.to_builtins(self)
        return found


class _PodStatus(msgspec.Struct):
    phase: str = ""


class Pod(Watched):
    """A pod of a scheduler whose pods need PodGroups."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)

    @property
    def group(self) -> str:
        """The PodGroup that the pod has; "" for none."""
        return self.metadata.annotation(GROUP_NAME)

    @property
    def own_group(self) -> str:
        """The PodGroup that this controller makes for the pod."""
        owner = self.metadata.controller()
        return PREFIX + (owner.uid if owner is not None else self.metadata.uid)

    @property
    def is_over(self) -> bool:
        return self.metadata.is_terminating or self.status.phase in _FINISHED


class _WorkloadSpec(msgspec.Struct):
    replicas: int = 1


class Workload(Watched):
    """A ReplicaSet or StatefulSet."""

    spec: _WorkloadSpec = msgspec.field(default_factory=_WorkloadSpec)
