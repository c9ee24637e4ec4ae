"""The PodGroups and pods that controllers create for workloads.

Volcano's Jobs become what Volcano's job controller creates, workloads of Kubernetes what Kubernetes
and Volcano's PodGroup controller create.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pumice.manifests.documents import Document
from pumice.manifests.errors import ManifestError

GROUP_NAME: Final = "scheduling.k8s.io/group-name"
DEFAULT_SCHEDULER: Final = "volcano"
_VOLCANO_JOB: Final = ("batch.volcano.sh/v1alpha1", "Job")
# Kind to the field that says how many pods there shall be.
_WORKLOADS: Final = {
    ("batch/v1", "Job"): "parallelism",
    ("apps/v1", "Deployment"): "replicas",
    ("apps/v1", "ReplicaSet"): "replicas",
    ("apps/v1", "StatefulSet"): "replicas",
}
_COPIED_ANNOTATIONS: Final = (
    "volcano.sh/preemptable",
    "volcano.sh/cooldown-time",
    "volcano.sh/revocable-zone",
)
_COPIED_LABELS: Final = ("volcano.sh/preemptable", "volcano.sh/cooldown-time")
_BUDGETS: Final = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")
_MOST_PODS: Final = 100_000


def expand(documents: Iterable[Document | ManifestError]) -> Iterator[Document | ManifestError]:
    """The documents with the pods and PodGroups of workloads; pods without a PodGroup get one."""
    for document in documents:
        if isinstance(document, ManifestError):
            yield document
            continue
        try:
            yield from (Document(body, document.source) for body in _expanded(document))
        except ManifestError as error:
            yield error


def _expanded(document: Document) -> list[Mapping[str, Any]]:
    body = document.body
    type_ = (body.get("apiVersion"), body.get("kind"))
    if type_ == _VOLCANO_JOB:
        return _VolcanoJob(document).objects()
    if type_ in _WORKLOADS:
        return _workload(document, _WORKLOADS[type_])
    if type_ == ("v1", "Pod"):
        return _bare_pod(document)
    return [body]


class _Reader:
    """Reads an untyped manifest; its errors name the field."""

    def __init__(self, document: Document) -> None:
        self.body = document.body
        self._source = document.source
        self.metadata = self.mapping(self.body, "metadata")
        self.spec = self.mapping(self.body, "spec")
        self.name = str(self.metadata.get("name") or self.metadata.get("generateName") or "")
        if not self.name:
            raise self.error("metadata.name", "is missing")
        self.namespace = str(self.metadata.get("namespace") or "default")

    def error(self, field: str, problem: str) -> ManifestError:
        kind, name = str(self.body.get("kind")), str(self.metadata.get("name") or "")
        return ManifestError(problem, source=self._source, kind=kind, name=name, field=field)

    def mapping(self, holder: Mapping[str, Any], field: str, path: str = "") -> dict[str, Any]:
        value = holder.get(field)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.metadata = getattr(self, "metadata", {})
            raise self.error(path or field, "must be an object")
        return dict(value)

    def count(self, holder: Mapping[str, Any], field: str, default: int, path: str) -> int:
        value = holder.get(field)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_PODS:
            raise self.error(path, f"must be a whole number from 0 to {_MOST_PODS}, not {value!r}")
        return value


class _VolcanoJob(_Reader):
    """A Job of batch.volcano.sh."""

    def __init__(self, document: Document) -> None:
        super().__init__(document)
        uid = self.metadata.get("uid")
        # A Job that was never applied has no uid: its group goes by its name, as old ones did.
        self.group = f"{self.name}-{uid}" if uid else self.name
        self.queue = str(self.spec.get("queue") or "default")
        tasks = self.spec.get("tasks")
        if not isinstance(tasks, list) or not tasks:
            raise self.error("spec.tasks", "must be a list of at least one task")
        self.tasks = [self._task(index, task) for index, task in enumerate(tasks)]

    def _task(self, index: int, task: Any) -> dict[str, Any]:
        path = f"spec.tasks[{index}]"
        if not isinstance(task, Mapping):
            raise self.error(path, "must be an object")
        held = dict(task)
        held["name"] = str(task.get("name") or f"default{index}")
        held["replicas"] = self.count(task, "replicas", 1, f"{path}.replicas")
        held["template"] = self.mapping(task, "template", f"{path}.template")
        partition = self.mapping(task, "partitionPolicy", f"{path}.partitionPolicy")
        size = self.count(partition, "partitionSize", 0, f"{path}.partitionPolicy.partitionSize")
        least = self.count(partition, "minPartitions", 0, f"{path}.partitionPolicy.minPartitions")
        default = least * size or held["replicas"]
        held["least"] = self.count(task, "minAvailable", default, f"{path}.minAvailable")
        held["partition"] = {**partition, "partitionSize": size, "minPartitions": least}
        return held

    def objects(self) -> list[Mapping[str, Any]]:
        return [self._pod_group(), *(pod for task in self.tasks for pod in self._pods(task))]

    def _pod_group(self) -> dict[str, Any]:
        least = sum(task["least"] for task in self.tasks)
        spec: dict[str, Any] = {
            "minMember": self.count(self.spec, "minAvailable", least, "spec.minAvailable"),
            "minTaskMember": {task["name"]: task["least"] for task in self.tasks},
            "queue": self.queue,
        }
        for field in ("priorityClassName", "networkTopology"):
            if self.spec.get(field):
                spec[field] = self.spec[field]
        policies = [self._policy(task) for task in self.tasks if task["partition"]["partitionSize"]]
        if policies:
            spec["subGroupPolicy"] = policies
        copied = {k: self.metadata[k] for k in ("labels", "annotations") if self.metadata.get(k)}
        created = self.metadata.get("creationTimestamp")
        return {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {
                "name": self.group,
                "namespace": self.namespace,
                **copied,
                **({"creationTimestamp": created} if created else {}),
            },
            "spec": spec,
        }

    def _policy(self, task: Mapping[str, Any]) -> dict[str, Any]:
        partition = task["partition"]
        policy = {
            "name": task["name"],
            "subGroupSize": partition["partitionSize"],
            "minSubGroups": partition["minPartitions"],
            "labelSelector": {"matchLabels": {"volcano.sh/task-spec": task["name"]}},
            "matchLabelKeys": ["volcano.sh/partition-id"],
        }
        if partition.get("networkTopology"):
            policy["networkTopology"] = partition["networkTopology"]
        return policy

    def _pods(self, task: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        size = task["partition"]["partitionSize"]
        for index in range(task["replicas"]):
            common = {
                "volcano.sh/task-index": str(index),
                "volcano.sh/task-spec": task["name"],
                "volcano.sh/job-name": self.name,
                "volcano.sh/queue-name": self.queue,
            }
            annotations = {
                **common,
                GROUP_NAME: self.group,
                "volcano.sh/template-uid": f"{self.name}-{task['name']}",
                **self._copied("annotations", _COPIED_ANNOTATIONS),
                **dict([*self._copied("annotations", _BUDGETS).items()][:1]),
            }
            if task.get("topologyPolicy"):
                annotations["volcano.sh/numa-topology-policy"] = str(task["topologyPolicy"])
            labels = {**common, **self._copied("labels", _COPIED_LABELS)}
            if size:
                labels["volcano.sh/partition-id"] = str(index // size)
            name = f"{self.name}-{task['name']}-{index}"
            yield _pod(self, name, task["template"], labels, annotations)

    def _copied(self, field: str, keys: Iterable[str]) -> dict[str, str]:
        held = self.mapping(self.metadata, field, f"metadata.{field}")
        return {key: str(held[key]) for key in keys if key in held}


def _pod(
    owner: _Reader,
    name: str,
    template: Mapping[str, Any],
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
) -> dict[str, Any]:
    metadata = owner.mapping(template, "metadata", "template.metadata")
    spec = owner.mapping(template, "spec", "template.spec")
    for field, fallback in (("schedulerName", DEFAULT_SCHEDULER), ("priorityClassName", "")):
        spec[field] = spec.get(field) or owner.spec.get(field) or fallback
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "labels": {**(metadata.get("labels") or {}), **labels},
            "annotations": {**(metadata.get("annotations") or {}), **annotations},
        },
        "spec": spec,
    }


def _workload(document: Document, field: str) -> list[Mapping[str, Any]]:
    """A PodGroup with a minimum of one pod, as the PodGroup controller creates it."""
    owner = _Reader(document)
    template = owner.mapping(owner.spec, "template", "spec.template")
    count = owner.count(owner.spec, field, 1, f"spec.{field}")
    group = f"podgroup-{owner.metadata.get('uid') or owner.name}"
    annotations = owner.mapping(template, "metadata").get("annotations") or {}
    if annotations.get(GROUP_NAME):
        group = str(annotations[GROUP_NAME])
    pods = [
        _pod(owner, f"{owner.name}-{index}", template, {}, {GROUP_NAME: group})
        for index in range(count)
    ]
    if annotations.get(GROUP_NAME):
        return list(pods)
    held = owner.mapping(owner.metadata, "annotations")
    least = str(held.get("scheduling.volcano.sh/group-min-member", "1"))
    return [_group(owner, group, int(least) if least.isdecimal() else 1, annotations), *pods]


def _bare_pod(document: Document) -> list[Mapping[str, Any]]:
    pod = _Reader(document)
    annotations = pod.mapping(pod.metadata, "annotations")
    if annotations.get(GROUP_NAME) or pod.spec.get("nodeName"):
        return [document.body]
    group = f"podgroup-{pod.metadata.get('uid') or pod.name}"
    metadata = {**pod.metadata, "annotations": {**annotations, GROUP_NAME: group}}
    spec = {**pod.spec, "schedulerName": pod.spec.get("schedulerName") or DEFAULT_SCHEDULER}
    return [_group(pod, group, 1, annotations), {**pod.body, "metadata": metadata, "spec": spec}]


def _group(owner: _Reader, name: str, least: int, annotations: Mapping[str, Any]) -> dict[str, Any]:
    queue = str(annotations.get("scheduling.volcano.sh/queue-name") or "default")
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": owner.namespace},
        "spec": {"minMember": least, "queue": queue},
    }
