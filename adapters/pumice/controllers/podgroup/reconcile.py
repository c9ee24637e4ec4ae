"""What the pods of one owner, or one pod without an owner, need: a PodGroup, and its name."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pumice.controllers.job.types import GROUP_NAME, PodGroup
from pumice.controllers.podgroup.building import (
    annotations,
    group_body,
    min_member,
    min_resources_of,
)
from pumice.controllers.podgroup.types import MIN_MEMBER, Pod
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
from pumice.controllers.runtime.objects import Manifest


@dataclass(frozen=True, slots=True)
class Seen:
    """Pods that belong to one PodGroup, in the order of their creation."""

    name: str
    pods: tuple[Pod, ...]
    group: PodGroup | None = None
    # Annotations of the owners; the first owner that has a key counts.
    inherited: Mapping[str, str] = field(default_factory=dict)
    # Whether the owner wants no pods.
    is_empty: bool = False


def reconcile(seen: Seen) -> Plan:
    """The PodGroup first, so that a pod never names one that does not exist."""
    group = seen.group
    if group is not None and group.metadata.is_terminating:
        # The key comes again when it is gone.
        return NOTHING
    if seen.is_empty:
        if group is None:
            return NOTHING
        metadata = group.metadata
        return Plan(((Delete(POD_GROUP, *metadata.key, uid=metadata.uid),),))
    waiting = [pod for pod in seen.pods if not pod.group and not pod.is_over]
    first: list[Act] = []
    if group is None and waiting:
        first = [_creation(waiting[0], seen)]
    elif group is not None and seen.pods:
        patch = _group_patch(group, seen)
        if patch:
            metadata = group.metadata
            first = [Patch(POD_GROUP, *metadata.key, metadata.uid, patch)]
    second: list[Act] = [_naming(pod, seen.name) for pod in waiting]
    stages = tuple(tuple(stage) for stage in (first, second) if stage)
    return Plan(stages) if stages else NOTHING


def _creation(pod: Pod, seen: Seen) -> Create:
    about = Reference.of(PODS, pod.metadata)
    refused = Emit(about, "FailedCreatePodGroup", "no PodGroup could be created", warning=True)
    return Create(
        POD_GROUP, group_body(pod, seen.name, seen.inherited), on_refusal=refused, may_exist=True
    )


def _naming(pod: Pod, name: str) -> Patch:
    metadata = pod.metadata
    patch = {"metadata": {"annotations": {GROUP_NAME: name}}}
    return Patch(PODS, *metadata.key, metadata.uid, patch)


def _group_patch(group: PodGroup, seen: Seen) -> Manifest:
    """Changes of the owners' annotations. What they do not name stays as users made it."""
    pod, patch = seen.pods[0], Manifest()
    if MIN_MEMBER in seen.inherited:
        least = min_member(seen.inherited)
        if group.spec.min_member != least:
            patch["spec"] = {"minMember": least, "minResources": min_resources_of(pod, least)}
    held = group.metadata.annotations or {}
    wanted = annotations(pod, seen.inherited)
    changed = {key: text for key, text in wanted.items() if held.get(key) != text}
    if changed:
        patch["metadata"] = {"annotations": changed}
    return patch
