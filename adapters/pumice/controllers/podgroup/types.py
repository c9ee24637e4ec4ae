"""PodGroups, and the pods and workloads that the PodGroup controller reads."""

from typing import Any, Final

import msgspec

from pumice.controllers.runtime.objects import ApiObject, Manifest

GROUP_NAME: Final = "scheduling.k8s.io/group-name"
# Prefix of the names of PodGroups that the PodGroup controller creates.
PREFIX: Final = "podgroup-"
MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
# Annotations of owners with this prefix are copied to the PodGroup.
INHERITED: Final = "volcano.sh/"
PREEMPTABLE: Final = "volcano.sh/preemptable"
COOLDOWN: Final = "volcano.sh/cooldown-time"
REVOCABLE: Final = "volcano.sh/revocable-zone"
JDB_MIN: Final = "volcano.sh/jdb-min-available"
JDB_MAX: Final = "volcano.sh/jdb-max-unavailable"
TOPOLOGY_MODE: Final = "volcano.sh/network-topology-mode"
TOPOLOGY_TIER: Final = "volcano.sh/network-topology-highest-tier"


class _GroupCondition(msgspec.Struct, rename="camel"):
    type: str = ""
    status: str = ""
    message: str = ""
    last_transition_time: str | None = None


class _GroupStatus(msgspec.Struct):
    phase: str = ""
    conditions: list[_GroupCondition] | None = None


class GroupSpec(msgspec.Struct, rename="camel"):
    """The spec of a PodGroup."""

    queue: str = ""
    min_member: int = 0
    min_task_member: dict[str, int] | None = None
    priority_class_name: str = ""
    min_resources: dict[str, Any] | None = None
    sub_group_policy: list[Manifest] | None = None


class PodGroup(ApiObject):
    """A PodGroup."""

    spec: GroupSpec = msgspec.field(default_factory=GroupSpec)
    status: _GroupStatus = msgspec.field(default_factory=_GroupStatus)


class _Container(msgspec.Struct, rename="camel", omit_defaults=True):
    resources: dict[str, Any] | None = None
    restart_policy: str = ""


class PodSpec(msgspec.Struct, rename="camel", omit_defaults=True):
    """The resources and the priority of a pod."""

    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: dict[str, Any] | None = None
    priority_class_name: str = ""


class _PodStatus(msgspec.Struct):
    phase: str = ""


class Pod(ApiObject):
    """A pod that may need a PodGroup."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)

    @property
    def group(self) -> str:
        """The name of the pod's PodGroup; "": it has none."""
        return self.metadata.annotation(GROUP_NAME)

    @property
    def default_group(self) -> str:
        """The name of the PodGroup that the controller creates for the pod, if it has none."""
        owner = self.metadata.controller()
        return PREFIX + (owner.uid if owner is not None else self.metadata.uid)

    @property
    def is_ended(self) -> bool:
        return self.metadata.is_terminating or self.status.phase in ("Succeeded", "Failed")


class _WorkloadSpec(msgspec.Struct):
    replicas: int = 1


class Workload(ApiObject):
    """A ReplicaSet or StatefulSet."""

    spec: _WorkloadSpec = msgspec.field(default_factory=_WorkloadSpec)
