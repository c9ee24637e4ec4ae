"""The resources that controllers watch and write."""

from typing import Final

from pumice.adapters.kubernetes.configuration import CONFIG_MAPS
from pumice.adapters.kubernetes.resources import (
    CLAIMS,
    EVENTS,
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
    "COMMANDS",
    "CONFIG_MAPS",
    "EVENTS",
    "JOBS",
    "NETWORK_POLICIES",
    "PODS",
    "POD_GROUP",
    "PRIORITY_CLASSES",
    "QUEUE",
    "SECRETS",
    "SERVICES",
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
JOBS: Final = Resource(
    _NO_KIND, "Job", "jobs", "batch.volcano.sh", "v1alpha1", namespaced=True, custom=True
)
COMMANDS: Final = Resource(
    _NO_KIND, "Command", "commands", "bus.volcano.sh", "v1alpha1", namespaced=True, custom=True
)
