"""The PodGroup of a Job."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pumice.controllers.job.pods import group_name
from pumice.controllers.job.types import (
    JOB_VERSION,
    PARTITION_ID,
    TASK_SPEC,
    Job,
    JobSpec,
    Task,
)
from pumice.controllers.podgroup.types import PodGroup
from pumice.controllers.resources import JOBS, POD_GROUP
from pumice.controllers.runtime.objects import Manifest, new_object, owner_reference
from pumice.manifests.errors import FieldError
from pumice.manifests.quantities import nanos
from pumice.manifests.requests import combined

_NATIVE: Final = ("cpu", "memory", "ephemeral-storage")
_BILLION: Final = 1_000_000_000


def group_body(job: Job, spec: JobSpec, minimum: Mapping[str, str]) -> Manifest:
    """A new PodGroup; `minimum` is its minResources.

    The annotation with the job's version tells a new PodGroup from one of an earlier version.
    """
    metadata = job.metadata
    group: Manifest = {
        "queue": spec.queue,
        "minMember": spec.min_available,
        "minTaskMember": min_task_member(spec),
        "minResources": dict(minimum),
    }
    if spec.priority_class_name:
        group["priorityClassName"] = spec.priority_class_name
    if spec.network_topology:
        group["networkTopology"] = _topology(spec.network_topology)
    if policies := sub_groups(spec):
        group["subGroupPolicy"] = policies
    return new_object(
        POD_GROUP,
        {
            "name": group_name(job),
            "namespace": metadata.namespace,
            "annotations": {**(metadata.annotations or {}), JOB_VERSION: str(job.status.version)},
            "labels": dict(metadata.labels or {}),
            "ownerReferences": [owner_reference(JOBS, metadata)],
        },
        spec=group,
    )


def group_patch(spec: JobSpec, group: PodGroup, minimum: Mapping[str, str]) -> Manifest | None:
    """The changes that a PodGroup needs; None: it needs none."""
    current = group.spec
    patch: Manifest = {}
    if current.priority_class_name != spec.priority_class_name:
        patch["priorityClassName"] = spec.priority_class_name or None
    if current.min_member != spec.min_available:
        patch["minMember"] = spec.min_available
    if _resources_differ(current.min_resources or {}, minimum):
        removed = dict.fromkeys(set(current.min_resources or {}) - set(minimum))
        patch["minResources"] = {**removed, **minimum}
    members = current.min_task_member or {}
    desired = min_task_member(spec)
    changed = {name: count for name, count in desired.items() if members.get(name) != count}
    removed_tasks = dict.fromkeys(members.keys() - desired.keys())
    if changed or removed_tasks:
        patch["minTaskMember"] = {**removed_tasks, **changed}
    policies = sub_groups(spec)
    if policies != [_without_nulls(one) for one in current.sub_group_policy or ()]:
        patch["subGroupPolicy"] = policies
    return {"spec": patch} if patch else None


def min_task_member(spec: JobSpec) -> dict[str, int]:
    return {task.name: task.min_available or 0 for task in spec.tasks or ()}


def sub_groups(spec: JobSpec) -> list[Manifest]:
    """One policy for each task with partitions."""
    policies = []
    for task in spec.tasks or ():
        partitions = task.partition_policy
        if partitions is None:
            continue
        policy: Manifest = {
            "name": task.name,
            "subGroupSize": partitions.partition_size,
            "minSubGroups": partitions.min_partitions,
            "labelSelector": {"matchLabels": {TASK_SPEC: task.name}},
            "matchLabelKeys": [PARTITION_ID],
        }
        if partitions.network_topology:
            policy["networkTopology"] = _topology(partitions.network_topology)
        policies.append(policy)
    return policies


def _topology(given: Manifest) -> Manifest:
    """The mode, and the highest tier by number or else by name."""
    found = {"mode": given.get("mode") or "hard"}
    if given.get("highestTierAllowed") is not None:
        found["highestTierAllowed"] = given["highestTierAllowed"]
    elif given.get("highestTierName"):
        found["highestTierName"] = given["highestTierName"]
    return found


def _without_nulls(policy: Manifest) -> Manifest:
    return {name: value for name, value in policy.items() if value is not None}


def _resources_differ(current: Mapping[str, Any], desired: Mapping[str, str]) -> bool:
    if current.keys() != desired.keys():
        return True
    try:
        return any(
            current[name] != text and nanos(current[name]) != nanos(text)
            for name, text in desired.items()
        )
    except FieldError:
        return True


# The resources that the gang needs to be admitted.


def min_resources(spec: JobSpec, priorities: Mapping[str, int]) -> dict[str, str]:
    """The usage of the first `minAvailable` pods, in the order of their tasks' priorities."""
    tasks = sorted(spec.tasks or (), key=lambda task: -priorities.get(_class_of(task), 0))
    total: dict[str, int] = {}
    for task, count in _chosen(tasks, spec.min_available):
        if count:
            for name, amount in _usage(task).items():
                total[name] = total.get(name, 0) + amount * count
    return {name: _shown(amount) for name, amount in sorted(total.items())}


def _class_of(task: Task) -> str:
    return str(task.spec.get("priorityClassName") or "")


def _chosen(tasks: Sequence[Task], minimum: int) -> list[tuple[Task, int]]:
    """How many pods of each task count; a task may occur twice.

    The minima of the tasks come before their other replicas, unless their sum exceeds the minimum.
    """
    minima = [task.min_available or 0 for task in tasks]
    if minimum < sum(minima):
        return _filled([(task, task.replicas) for task in tasks], minimum)
    first = list(zip(tasks, minima, strict=True))
    others = [(task, task.replicas - low) for task, low in first]
    return _filled([*first, *others], minimum)


def _filled(tasks: Sequence[tuple[Task, int]], total: int) -> list[tuple[Task, int]]:
    """Takes pods of the tasks in order, at most the given number of each, until there are enough."""
    found = []
    for task, most in tasks:
        count = max(0, min(most, total))
        total -= count
        found.append((task, count))
    return found


def _usage(task: Task) -> dict[str, int]:
    """The usage of one pod in billionths, by the names that quotas use."""
    pod = task.spec
    requests = _amounts(pod, "requests")
    limits = _amounts(pod, "limits")
    usage = {"count/pods": _BILLION, "pods": _BILLION}
    for name, amount in requests.items():
        if name in _NATIVE or name.startswith("hugepages-") or "/" in name:
            usage[name] = usage[f"requests.{name}"] = amount
    for name, amount in limits.items():
        if name in _NATIVE:
            usage[f"limits.{name}"] = amount
    return usage


def _amounts(pod: Mapping[str, Any], field: str) -> dict[str, int]:
    """The maximum over the phases of a pod, and its overhead."""
    containers = [_of(one, field) for one in pod.get("containers") or ()]
    init = [
        (_of(one, field), one.get("restartPolicy") == "Always")
        for one in pod.get("initContainers") or ()
    ]
    total = combined(containers, init)
    for name, amount in _nanos(pod.get("overhead") or {}).items():
        if field == "requests" or name in total:
            total[name] = total.get(name, 0) + amount
    return total


def _of(container: Mapping[str, Any], field: str) -> dict[str, int]:
    """The requests or limits of a container; as in pods, a limit is the default of a request."""
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    return _nanos(limits if field == "limits" else {**limits, **(resources.get("requests") or {})})


def _nanos(amounts: Mapping[str, Any]) -> dict[str, int]:
    found = {}
    for name, amount in amounts.items():
        try:
            found[name] = nanos(amount)
        except FieldError:
            # The API server refuses the pods, and an event has the reason.
            continue
    return found


def _shown(billionths: int) -> str:
    whole, rest = divmod(billionths, _BILLION)
    if not rest:
        return str(whole)
    milli, rest = divmod(billionths, 1_000_000)
    return f"{milli}m" if not rest else f"{billionths}n"
