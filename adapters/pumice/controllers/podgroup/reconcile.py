"""Reconciles the PodGroup of the pods of one owner, or of one pod without an owner."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pumice.controllers.job.groups import min_resources
from pumice.controllers.job.types import JobSpec, Task
from pumice.controllers.podgroup.types import (
    COOLDOWN,
    GROUP_NAME,
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
    PodGroup,
)
from pumice.controllers.resources import POD_GROUP, PODS
from pumice.controllers.runtime.acts import (
    NOTHING,
    Act,
    Create,
    Delete,
    Emit,
    Patch,
    Plan,
    Reference,
)
from pumice.controllers.runtime.objects import Manifest, OwnerReference, new_object
from pumice.patterns import golang

_MODES: Final = ("hard", "soft")


@dataclass(frozen=True, slots=True)
class Observed:
    """A PodGroup, and its pods in the order of their creation."""

    name: str
    pods: tuple[Pod, ...]
    group: PodGroup | None = None
    # Annotations of the owners; the first owner that has an annotation decides its value.
    inherited: Mapping[str, str] = field(default_factory=dict)
    # Whether the owner has 0 replicas.
    is_scaled_to_zero: bool = False


def reconcile(observed: Observed) -> Plan:
    """Creates the PodGroup first, so that no pod names a PodGroup that does not exist."""
    group = observed.group
    if group is not None and group.metadata.is_terminating:
        # The key is enqueued again when the PodGroup is deleted.
        return NOTHING
    if observed.is_scaled_to_zero:
        return Plan.of([Delete.of(POD_GROUP, group.metadata)] if group is not None else ())
    pending = [pod for pod in observed.pods if not pod.group and not pod.is_ended]
    first: list[Act] = []
    if group is None and pending:
        first = [_creation(pending[0], observed)]
    elif group is not None and observed.pods and (patch := _group_patch(group, observed)):
        first = [Patch.of(POD_GROUP, group.metadata, patch)]
    naming = {"metadata": {"annotations": {GROUP_NAME: observed.name}}}
    return Plan.of(first, [Patch.of(PODS, pod.metadata, naming) for pod in pending])


def _creation(pod: Pod, observed: Observed) -> Create:
    about = Reference.of(PODS, pod.metadata)
    refused = Emit(about, "FailedCreatePodGroup", "no PodGroup could be created", warning=True)
    body = group_body(pod, observed.name, observed.inherited)
    return Create(POD_GROUP, body, on_refusal=refused, may_exist=True)


def _group_patch(group: PodGroup, observed: Observed) -> Manifest:
    """Follows changed annotations of the owners; other fields stay as users set them."""
    pod, patch = observed.pods[0], Manifest()
    if MIN_MEMBER in observed.inherited:
        minimum = _min_member(observed.inherited)
        if group.spec.min_member != minimum:
            patch["spec"] = {"minMember": minimum, "minResources": _min_resources_of(pod, minimum)}
    stored = group.metadata.annotations or {}
    desired = _annotations(pod, observed.inherited)
    changed = {key: text for key, text in desired.items() if stored.get(key) != text}
    if changed:
        patch["metadata"] = {"annotations": changed}
    return patch


# The fields of a PodGroup.


def group_body(pod: Pod, name: str, inherited: Mapping[str, str]) -> Manifest:
    """A new PodGroup, from a pod and the annotations of its owners."""
    metadata = pod.metadata
    minimum = _min_member(inherited)
    spec: Manifest = {"minMember": minimum, "minResources": _min_resources_of(pod, minimum)}
    if pod.spec.priority_class_name:
        spec["priorityClassName"] = pod.spec.priority_class_name
    if queue := metadata.annotation(QUEUE_NAME):
        spec["queue"] = queue
    if topology := _topology(metadata.annotations or {}):
        spec["networkTopology"] = topology
    return new_object(
        POD_GROUP,
        {
            "name": name,
            "namespace": metadata.namespace,
            "annotations": _annotations(pod, inherited),
            "labels": {
                key: metadata.label(key) for key in (PREEMPTABLE, COOLDOWN) if metadata.label(key)
            },
            "ownerReferences": _owners(pod),
        },
        spec=spec,
        status={"phase": "Pending"},
    )


def _annotations(pod: Pod, inherited: Mapping[str, str]) -> dict[str, str]:
    """The scheduling annotations of the owners; some annotations of the pod override them."""
    found = {key: text for key, text in inherited.items() if key.startswith(INHERITED)}
    metadata = pod.metadata
    budget = JDB_MIN if metadata.annotation(JDB_MIN) else JDB_MAX
    for key in (PREEMPTABLE, COOLDOWN, REVOCABLE, budget):
        if text := metadata.annotation(key):
            found[key] = text
    return found


def _min_member(inherited: Mapping[str, str]) -> int:
    """The number that an owner's annotation has; 1 without the annotation, or if it is no number."""
    return golang.min_member(inherited.get(MIN_MEMBER, ""))


def _min_resources_of(pod: Pod, count: int) -> dict[str, str]:
    template = {"spec": msgspec.to_builtins(pod.spec)}
    task = Task(replicas=count, min_available=count, template=template)
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
    """The owners of the pod; the pod itself, if no owner controls it."""
    metadata = pod.metadata
    owners = metadata.owner_references or []
    if metadata.controller() is None:
        owners = [OwnerReference("v1", "Pod", metadata.name, metadata.uid, controller=True)]
    return [msgspec.to_builtins(owner) for owner in owners]
