"""The PodGroup that a pod without one gets."""

from collections.abc import Mapping

from pumice.controllers.job.groups import min_resources
from pumice.controllers.job.types import JobSpec, Task
from pumice.controllers.podgroup.types import (
    COOLDOWN,
    INHERITED,
    JDB_MAX,
    JDB_MIN,
    MIN_MEMBER,
    PREEMPTABLE,
    QUEUE_NAME,
    REVOCABLE,
    TOPOLOGY_MODE,
    TOPOLOGY_TIER,
    Pod,
)
from pumice.controllers.runtime.objects import Manifest, OwnerReference
from pumice.patterns import golang

_MODES = ("hard", "soft")


def group_body(pod: Pod, name: str, inherited: Mapping[str, str]) -> Manifest:
    """A new PodGroup, made from a pod and the annotations of its owners."""
    metadata = pod.metadata
    least = min_member(inherited)
    spec: Manifest = {"minMember": least, "minResources": min_resources_of(pod, least)}
    if pod.spec.priority_class_name:
        spec["priorityClassName"] = pod.spec.priority_class_name
    if queue := metadata.annotation(QUEUE_NAME):
        spec["queue"] = queue
    if topology := _topology(metadata.annotations or {}):
        spec["networkTopology"] = topology
    labels = {key: metadata.label(key) for key in (PREEMPTABLE, COOLDOWN) if metadata.label(key)}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": metadata.namespace,
            "annotations": annotations(pod, inherited),
            "labels": labels,
            "ownerReferences": _owners(pod),
        },
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def annotations(pod: Pod, inherited: Mapping[str, str]) -> dict[str, str]:
    """Those of the owners that are for scheduling, and over them some of the pod."""
    found = {key: text for key, text in inherited.items() if key.startswith(INHERITED)}
    metadata = pod.metadata
    budget = JDB_MIN if metadata.annotation(JDB_MIN) else JDB_MAX
    for key in (PREEMPTABLE, COOLDOWN, REVOCABLE, budget):
        if text := metadata.annotation(key):
            found[key] = text
    return found


def min_member(inherited: Mapping[str, str]) -> int:
    """What the owner asks for; 1 when it asks for nothing that is a number."""
    return golang.min_member(inherited.get(MIN_MEMBER, ""))


def min_resources_of(pod: Pod, count: int) -> dict[str, str]:
    task = Task(replicas=count, min_available=count, template={"spec": pod.spec.to_dict()})
    return min_resources(JobSpec(min_available=count, tasks=[task]), {})


def _topology(given: Mapping[str, str]) -> Manifest:
    if TOPOLOGY_MODE not in given and TOPOLOGY_TIER not in given:
        return {}
    mode = given.get(TOPOLOGY_MODE, "").lower()
    found: Manifest = {"mode": mode if mode in _MODES else "hard"}
    tier = golang.parse_int(given.get(TOPOLOGY_TIER, "").strip())
    if tier is not None and tier >= 0:
        found["highestTierAllowed"] = tier
    return found


def _owners(pod: Pod) -> list[Manifest]:
    """The owners of a pod with a controller, else the pod itself."""
    metadata = pod.metadata
    if metadata.controller() is None:
        owner = OwnerReference("v1", "Pod", metadata.name, metadata.uid, controller=True)
        return [_reference(owner)]
    return [_reference(one) for one in metadata.owner_references or ()]


def _reference(owner: OwnerReference) -> Manifest:
    found: Manifest = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
    }
    return {**found, "controller": True} if owner.controller else found
