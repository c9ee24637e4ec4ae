"""The pods of a Job, made from the templates of its tasks."""

import hashlib
from typing import Any, Final

from pumice.controllers.job.plugins import PodContext, apply_plugins
from pumice.controllers.job.plugins.context import containers
from pumice.controllers.job.times import shown_exactly
from pumice.controllers.job.types import (
    API_VERSION,
    EVICTED_AT,
    GROUP_NAME,
    JOB_FORWARDING,
    JOB_NAME,
    JOB_NAMESPACE,
    JOB_RETRY_COUNT,
    JOB_VERSION,
    KIND,
    PARTITION_ID,
    QUEUE_NAME,
    TASK_INDEX,
    TASK_SPEC,
    TEMPLATE_UID,
    Job,
    JobSpec,
    Task,
)
from pumice.controllers.job.volumes import claim_names
from pumice.controllers.runtime.objects import Manifest, owner_reference

_COPIED_ANNOTATIONS: Final = (
    "volcano.sh/preemptable",
    "volcano.sh/cooldown-time",
    "volcano.sh/revocable-zone",
)
_COPIED_LABELS: Final = ("volcano.sh/preemptable", "volcano.sh/cooldown-time")
_BUDGETS: Final = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")
_NUMA_POLICY: Final = "volcano.sh/numa-topology-policy"
_VOLUME_NAME_LENGTH: Final = 63
_LABEL_LENGTH: Final = 63
# Lists of a container to which plugins and volumes are added.
_LISTS: Final = ("env", "ports", "volumeMounts")


def pod_name(job: str, task: str, index: int) -> str:
    return f"{job}-{task}-{index}"


def group_name(job: Job) -> str:
    return f"{job.metadata.name}-{job.metadata.uid}"


def pod_body(
    job: Job,
    spec: JobSpec,
    task: Task,
    index: int,
    *,
    is_forwarded: bool,
    group: str = "",
    evicted_ms: int = 0,
) -> Manifest:
    """A pod of a task. The template's own name and namespace are ignored. Raises ValueError.

    `group` is the name of the PodGroup, which old versions of Volcano named after the job.
    `evicted_ms` is when the pod was evicted that this one replaces; 0: none was.
    """
    metadata = job.metadata
    template = task.template.get("metadata") or {}
    pod_spec = _pod_spec(job, spec, task)
    body: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(metadata.name, task.name, index),
            "namespace": metadata.namespace,
            "ownerReferences": [owner_reference(API_VERSION, KIND, metadata)],
            "labels": {
                **(template.get("labels") or {}),
                **_labels(job, spec, task, index, is_forwarded),
            },
            "annotations": {
                **(template.get("annotations") or {}),
                **_annotations(job, spec, task, index, is_forwarded),
                GROUP_NAME: group or group_name(job),
            },
        },
        "spec": pod_spec,
    }
    if evicted_ms:
        body["metadata"]["annotations"][EVICTED_AT] = shown_exactly(evicted_ms)
    apply_plugins(PodContext(job, spec, task, index), body)
    _drop_empty(pod_spec)
    return body


def _pod_spec(job: Job, spec: JobSpec, task: Task) -> dict[str, Any]:
    """A copy of the template's spec, as deep as it is changed."""
    pod_spec = dict(task.spec)
    for field in ("containers", "initContainers"):
        if pod_spec.get(field):
            pod_spec[field] = [_copied_container(one) for one in pod_spec[field]]
    pod_spec["volumes"] = list(pod_spec.get("volumes") or ())
    if not pod_spec.get("schedulerName"):
        pod_spec["schedulerName"] = spec.scheduler_name
    if not pod_spec.get("priorityClassName") and spec.priority_class_name:
        pod_spec["priorityClassName"] = spec.priority_class_name
    if pod_spec.get("hostNetwork") and not pod_spec.get("dnsPolicy"):
        pod_spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    _add_volumes(job, spec, pod_spec)
    return pod_spec


def _copied_container(container: Manifest) -> Manifest:
    copied = dict(container)
    for field in _LISTS:
        copied[field] = list(copied.get(field) or ())
    return copied


def _drop_empty(pod_spec: Manifest) -> None:
    """Removes empty lists, which the API server would read and check for nothing."""
    if not pod_spec["volumes"]:
        del pod_spec["volumes"]
    for container in containers({"spec": pod_spec}, init=True):
        for field in _LISTS:
            if not container.get(field, True):
                del container[field]


def _add_volumes(job: Job, spec: JobSpec, pod_spec: dict[str, Any]) -> None:
    """Mounts the volumes of the job in the main containers. Volumes of one claim share a name."""
    names: dict[str, str] = {}
    for volume, claim in zip(spec.volumes or (), claim_names(job, spec), strict=True):
        if claim not in names:
            names[claim] = _volume_name(job, claim)
            source = {"persistentVolumeClaim": {"claimName": claim}}
            pod_spec["volumes"].append({"name": names[claim], **source})
        for container in pod_spec.get("containers") or ():
            mount = {"name": names[claim], "mountPath": volume.mount_path}
            container["volumeMounts"].append(mount)


def _volume_name(job: Job, claim: str) -> str:
    digest = hashlib.blake2b(claim.encode(), digest_size=6).hexdigest()
    head = job.metadata.name[: _VOLUME_NAME_LENGTH - len(digest) - 1].rstrip("-.")
    return f"{head.replace('.', '-')}-{digest}"


def _annotations(
    job: Job, spec: JobSpec, task: Task, index: int, is_forwarded: bool
) -> dict[str, str]:
    held = job.metadata.annotations or {}
    found = {
        TASK_INDEX: str(index),
        TASK_SPEC: task.name,
        JOB_NAME: job.metadata.name,
        QUEUE_NAME: spec.queue,
        JOB_VERSION: str(job.status.version),
        TEMPLATE_UID: f"{job.metadata.name}-{task.name}",
        JOB_RETRY_COUNT: str(job.status.retry_count),
    }
    if task.topology_policy:
        found[_NUMA_POLICY] = task.topology_policy
    found.update({name: held[name] for name in _COPIED_ANNOTATIONS if name in held})
    budget = next((name for name in _BUDGETS if name in held), None)
    if budget is not None:
        found[budget] = held[budget]
    if is_forwarded:
        found[JOB_FORWARDING] = "true"
    return found


def _labels(job: Job, spec: JobSpec, task: Task, index: int, is_forwarded: bool) -> dict[str, str]:
    held = job.metadata.labels or {}
    found = {
        TASK_INDEX: str(index),
        JOB_NAME: job.metadata.name,
        TASK_SPEC: task.name,
        JOB_NAMESPACE: job.metadata.namespace,
    }
    if len(spec.queue) <= _LABEL_LENGTH:
        # Names of queues may be longer; the annotation has them all.
        found[QUEUE_NAME] = spec.queue
    found.update({name: held[name] for name in _COPIED_LABELS if name in held})
    if is_forwarded:
        found[JOB_FORWARDING] = "true"
    if task.partition_policy is not None:
        found[PARTITION_ID] = task.partition_of(index)
    return found
