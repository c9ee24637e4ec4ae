"""The PodGroup of a Job."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pumice.controllers.job.pods import group_name
from pumice.controllers.job.types import (
    API_VERSION,
    JOB_VERSION,
    KIND,
    PARTITION_ID,
    TASK_SPEC,
    Job,
    JobSpec,
    PodGroup,
    Task,
)
from pumice.controllers.runtime.objects import Manifest, owner_reference
from pumice.manifests.errors import FieldError
from pumice.manifests.quantities import nanos
from pumice.manifests.requests import combined

_NATIVE: Final = ("cpu", "memory", "ephemeral-storage")
_LIMITED: Final = _NATIVE
_BILLION: Final = 1_000_000_000


def group_body(
    job: Job,
    spec: JobSpec,
    priorities: Mapping[str, int],
    least: Mapping[str, str] | None = None,
) -> Manifest:
    """A new PodGroup. Its annotation with the job's version tells an old group from a new one.

    `least` is what `min_resources` returns, if it is known.
    """
    metadata = job.metadata
    body: Manifest = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": group_name(job),
            "namespace": metadata.namespace,
            "annotations": {**(metadata.annotations or {}), JOB_VERSION: str(job.status.version)},
            "labels": dict(metadata.labels or {}),
            "ownerReferences": [owner_reference(API_VERSION, KIND, metadata)],
        },
        "spec": {
            "queue": spec.queue,
            "minMember": spec.min_available,
            "minTaskMember": min_task_member(spec),
            "minResources": min_resources(spec, priorities) if least is None else dict(least),
        },
    }
    if spec.priority_class_name:
        body["spec"]["priorityClassName"] = spec.priority_class_name
    if spec.network_topology:
        body["spec"]["networkTopology"] = _topology(spec.network_topology)
    policies = sub_groups(spec)
    if policies:
        body["spec"]["subGroupPolicy"] = policies
    return body


def group_patch(
    spec: JobSpec,
    group: PodGroup,
    priorities: Mapping[str, int],
    least: Mapping[str, str] | None = None,
) -> Manifest | None:
    """What a PodGroup lacks; None when nothing."""
    held = group.spec
    if least is None:
        least = min_resources(spec, priorities)
    patch: Manifest = {}
    if held.priority_class_name != spec.priority_class_name:
        patch["priorityClassName"] = spec.priority_class_name or None
    if held.min_member != spec.min_available:
        patch["minMember"] = spec.min_available
    if _resources_differ(held.min_resources or {}, least):
        removed = dict.fromkeys(set(held.min_resources or {}) - set(least))
        patch["minResources"] = {**removed, **least}
    members = held.min_task_member or {}
    wanted = min_task_member(spec)
    changed = {k: v for k, v in wanted.items() if members.get(k) != v}
    removed_tasks = dict.fromkeys(members.keys() - wanted.keys())
    if changed or removed_tasks:
        patch["minTaskMember"] = {**removed_tasks, **changed}
    policies = sub_groups(spec)
    if policies != [_without_nulls(one) for one in held.sub_group_policy or ()]:
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


def _resources_differ(held: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    if held.keys() != wanted.keys():
        return True
    try:
        return any(
            held[name] != text and nanos(held[name]) != nanos(text) for name, text in wanted.items()
        )
    except FieldError:
        return True


# What the gang needs to be admitted.


def min_resources(spec: JobSpec, priorities: Mapping[str, int]) -> dict[str, str]:
    """The usage of the pods that count for minAvailable, those of high priority first."""
    tasks = sorted(spec.tasks or (), key=lambda task: -priorities.get(_class_of(task), 0))
    total: dict[str, int] = {}
    for task, count in _chosen(tasks, spec.min_available):
        if count:
            for name, amount in _usage(task).items():
                total[name] = total.get(name, 0) + amount * count
    return {name: _shown(amount) for name, amount in sorted(total.items())}


def _class_of(task: Task) -> str:
    return str(task.spec.get("priorityClassName") or "")


def _chosen(tasks: Sequence[Task], least: int) -> list[tuple[Task, int]]:
    minima = [task.min_available or 0 for task in tasks]
    if least < sum(minima):
        return _filled(list(zip(tasks, (task.replicas for task in tasks), strict=True)), least)
    first = _filled(list(zip(tasks, minima, strict=True)), least)
    rest = least - sum(count for _, count in first)
    spare = [(task, task.replicas - low) for task, low in zip(tasks, minima, strict=True)]
    return [*first, *_filled(spare, rest)]


def _filled(tasks: Sequence[tuple[Task, int]], wanted: int) -> list[tuple[Task, int]]:
    found = []
    for task, most in tasks:
        count = max(0, min(most, wanted))
        wanted -= count
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
        if name in _LIMITED:
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
    """Requests or limits of a container; a limit without a request is a request, as in pods."""
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    return _nanos(limits if field == "limits" else {**limits, **(resources.get("requests") or {})})


def _nanos(amounts: Mapping[str, Any]) -> dict[str, int]:
    found = {}
    for name, amount in amounts.items():
        try:
            found[name] = nanos(amount)
        except FieldError:
            # The API server refuses the pods and says why.
            continue
    return found


def _shown(billionths: int) -> str:
    whole, rest = divmod(billionths, _BILLION)
    if not rest:
        return str(whole)
    milli, rest = divmod(billionths, 1_000_000)
    return f"{milli}m" if not rest else f"{billionths}n"
