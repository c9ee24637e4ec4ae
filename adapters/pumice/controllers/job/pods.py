"""The pods of a Job, made from the templates of its tasks."""

import hashlib
from typing import Any, Final

from pumice.controllers.job.plugins import PodContext, job_plugins
from pumice.controllers.job.plugins.plugin import containers
from pumice.controllers.job.types import (
    EVICTED_AT,
    JOB_FORWARDING,
    JOB_NAME,
    JOB_NAMESPACE,
    JOB_RETRY_COUNT,
    JOB_VERSION,
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
from pumice.controllers.podgroup.types import (
    COOLDOWN,
    GROUP_NAME,
    JDB_MAX,
    JDB_MIN,
    PREEMPTABLE,
    REVOCABLE,
)
from pumice.controllers.resources import JOBS, PODS
from pumice.controllers.runtime.objects import Manifest, new_object, owner_reference
from pumice.controllers.runtime.times import shown_exactly

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
    `evicted_ms` is when the pod that this pod replaces was evicted; 0: it replaces none.
    """
    metadata = job.metadata
    template = task.template.get("metadata") or {}
    pod_spec = _pod_spec(job, spec, task)
    annotations = {
        **(template.get("annotations") or {}),
        **_annotations(job, spec, task, index, is_forwarded),
        GROUP_NAME: group or group_name(job),
    }
    if evicted_ms:
        annotations[EVICTED_AT] = shown_exactly(evicted_ms)
    body = new_object(
        PODS,
        {
            "name": pod_name(metadata.name, task.name, index),
            "namespace": metadata.namespace,
            "ownerReferences": [owner_reference(JOBS, metadata)],
            "labels": {
                **(template.get("labels") or {}),
                **_labels(job, spec, task, index, is_forwarded),
            },
            "annotations": annotations,
        },
        spec=pod_spec,
    )
    for _, plugin in job_plugins(spec):
        plugin.change_pod(PodContext(job, spec, task, index), body)
    _drop_empty(pod_spec)
    return body


def _pod_spec(job: Job, spec: JobSpec, task: Task) -> dict[str, Any]:
    """A copy of the template's spec; only the parts that are changed are copied."""
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
    """Removes empty lists, which would only cost the API server time."""
    if not pod_spec["volumes"]:
        del pod_spec["volumes"]
    for container in containers({"spec": pod_spec}, init=True):
        for field in _LISTS:
            if not container.get(field, True):
                del container[field]


def _add_volumes(job: Job, spec: JobSpec, pod_spec: dict[str, Any]) -> None:
    """Mounts the volumes of the job in the containers. Volumes with the same claim share a name."""
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
    given = job.metadata.annotations or {}
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
    budget = JDB_MIN if JDB_MIN in given else JDB_MAX
    for name in (PREEMPTABLE, COOLDOWN, REVOCABLE, budget):
        if name in given:
            found[name] = given[name]
    if is_forwarded:
        found[JOB_FORWARDING] = "true"
    return found


def _labels(job: Job, spec: JobSpec, task: Task, index: int, is_forwarded: bool) -> dict[str, str]:
    given = job.metadata.labels or {}
    found = {
        TASK_INDEX: str(index),
        JOB_NAME: job.metadata.name,
        TASK_SPEC: task.name,
        JOB_NAMESPACE: job.metadata.namespace,
    }
    if len(spec.queue) <= _LABEL_LENGTH:
        # A longer name is in the annotation only.
        found[QUEUE_NAME] = spec.queue
    found.update({name: given[name] for name in (PREEMPTABLE, COOLDOWN) if name in given})
    if is_forwarded:
        found[JOB_FORWARDING] = "true"
    if task.partition_policy is not None:
        found[PARTITION_ID] = task.partition_of(index)
    return found
