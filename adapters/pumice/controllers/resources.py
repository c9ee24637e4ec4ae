"""The resources that controllers watch and write."""

from typing import Final

from pumice.adapters.kubernetes.configuration import CONFIG_MAPS
from pumice.adapters.kubernetes.resources import (
    CLAIMS,
    EVENTS,
    NODE_SHARDS,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    Resource,
    resources_of,
)
from pumice.adapters.runtime.objects import KindNumber
from pumice.v1 import object_pb2 as kinds

__all__ = [
    "CLAIMS",
    "COLOCATION_CONFIGURATIONS",
    "COMMANDS",
    "CONFIG_MAPS",
    "CRON_JOBS",
    "DAEMON_SETS",
    "EVENTS",
    "HYPER_NODES",
    "JOBS",
    "JOB_FLOWS",
    "JOB_TEMPLATES",
    "KUBERNETES_JOBS",
    "NETWORK_POLICIES",
    "NODES",
    "NODE_SHARDS",
    "PODS",
    "POD_GROUP",
    "PRIORITY_CLASSES",
    "QUEUE",
    "REPLICA_SETS",
    "SECRETS",
    "SERVICES",
    "STATEFUL_SETS",
]

_NO_KIND: Final = KindNumber(0)

POD_GROUP: Final = POD_GROUPS[0]
QUEUE: Final = QUEUES[0]
PRIORITY_CLASSES: Final = resources_of(kinds.KIND_PRIORITY_CLASS)[0]
SERVICES: Final = resources_of(kinds.KIND_SERVICE)[0]
SECRETS: Final = Resource(_NO_KIND, "Secret", "secrets", namespaced=True)
NETWORK_POLICIES: Final = Resource(
    _NO_KIND, "NetworkPolicy", "networkpolicies", "networking.k8s.io", namespaced=True
)


def _volcano(name: str, plural: str, group: str) -> Resource:
    return Resource(_NO_KIND, name, plural, group, "v1alpha1", namespaced=True, custom=True)


JOBS: Final = _volcano("Job", "jobs", "batch.volcano.sh")
COMMANDS: Final = _volcano("Command", "commands", "bus.volcano.sh")
CRON_JOBS: Final = _volcano("CronJob", "cronjobs", "batch.volcano.sh")
JOB_FLOWS: Final = _volcano("JobFlow", "jobflows", "flow.volcano.sh")
JOB_TEMPLATES: Final = _volcano("JobTemplate", "jobtemplates", "flow.volcano.sh")
COLOCATION_CONFIGURATIONS: Final = _volcano(
    "ColocationConfiguration", "colocationconfigurations", "config.volcano.sh"
)
HYPER_NODES: Final = resources_of(kinds.KIND_HYPER_NODE)[0]
REPLICA_SETS: Final = resources_of(kinds.KIND_REPLICA_SET)[0]
STATEFUL_SETS: Final = resources_of(kinds.KIND_STATEFUL_SET)[0]
DAEMON_SETS: Final = Resource(_NO_KIND, "DaemonSet", "daemonsets", "apps", namespaced=True)
KUBERNETES_JOBS: Final = Resource(_NO_KIND, "Job", "jobs", "batch", namespaced=True)
