"""Generates the PodGroups and pods that controllers create for workloads.

For Jobs of Volcano these are the objects of Volcano's job controller; for workloads of Kubernetes,
those of Kubernetes and of Volcano's PodGroup controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pumice.manifests.documents import Document, Note, Origin
from pumice.manifests.errors import ManifestError
from pumice.patterns.golang import min_member

GROUP_NAME: Final = "scheduling.k8s.io/group-name"
DEFAULT_SCHEDULER: Final = "volcano"
_VOLCANO_JOB: Final = ("batch.volcano.sh/v1alpha1", "Job")
# The field with the number of pods, by kind.
_WORKLOADS: Final = {
    ("batch/v1", "Job"): "parallelism",
    ("apps/v1", "Deployment"): "replicas",
    ("apps/v1", "ReplicaSet"): "replicas",
    ("apps/v1", "StatefulSet"): "replicas",
    ("v1", "ReplicationController"): "replicas",
}
_COPIED_ANNOTATIONS: Final = (
    "volcano.sh/preemptable",
    "volcano.sh/cooldown-time",
    "volcano.sh/revocable-zone",
)
_COPIED_LABELS: Final = ("volcano.sh/preemptable", "volcano.sh/cooldown-time")
_BUDGETS: Final = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")
_MOST_PODS: Final = 100_000


def expand(
    documents: Iterable[Document | ManifestError], scheduler_name: str = DEFAULT_SCHEDULER
) -> Iterator[Document | ManifestError | Note]:
    """Adds the pods and PodGroups of workloads to documents; pods without a PodGroup get one.

    Pods without a schedulerName get the given one. A Note reports pods that the default scheduler
    of Kubernetes would schedule.
    """
    for document in documents:
        if isinstance(document, ManifestError):
            yield document
            continue
        try:
            yield from _expanded(document, scheduler_name)
        except ManifestError as error:
            yield error


def _expanded(document: Document, scheduler_name: str) -> Iterator[Document | Note]:
    body = document.body
    type_ = (body.get("apiVersion"), body.get("kind"))
    if type_ == _VOLCANO_JOB:
        yield from _VolcanoJob(document, scheduler_name).objects()
    elif type_ in _WORKLOADS:
        yield from _workload(document, _WORKLOADS[type_], scheduler_name)
    elif type_ == ("v1", "Pod"):
        yield from _bare_pod(document, scheduler_name)
    else:
        yield document


class _Reader:
    """Reads fields of an untyped manifest, with errors that name the field."""

    def __init__(self, document: Document, scheduler_name: str) -> None:
        self.body = document.body
        self.scheduler_name = scheduler_name
        self._source = document.source
        # The PodGroup as ``namespace/name``; empty if it is not known.
        self.job = ""
        self.metadata = self.mapping(self.body, "metadata")
        self.spec = self.mapping(self.body, "spec")
        self.name = str(self.metadata.get("name") or self.metadata.get("generateName") or "")
        if not self.name:
            raise self.error("metadata.name", "is missing")
        self.namespace = str(self.metadata.get("namespace") or "default")

    def error(self, field: str, problem: str) -> ManifestError:
        kind, name = str(self.body.get("kind")), str(self.metadata.get("name") or "")
        if name:
            name = f"{self.metadata.get('namespace') or 'default'}/{name}"
        return ManifestError(
            problem, source=self._source, kind=kind, name=name, field=field, job=self.job
        )

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    def made(self, body: Mapping[str, Any], field: str, group: str) -> Document:
        """An object that is generated from a field of this one."""
        job = f"{self.namespace}/{group}"
        origin = Origin(str(self.body["kind"]), self.full_name, field, job)
        return Document(body, self._source, origin)

    def scheduler_note(self, pod_spec: Mapping[str, Any], field: str) -> Iterator[Note]:
        """A Note if the default scheduler of Kubernetes would schedule the pods."""
        if not pod_spec.get("schedulerName") and not pod_spec.get("nodeName"):
            yield Note(
                self._source,
                str(self.body["kind"]),
                self.full_name,
                f"{field}.schedulerName",
                "is missing, so Kubernetes' own scheduler gets its pods; this result is for "
                f"schedulerName {self.scheduler_name!r}",
            )

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

    def __init__(self, document: Document, scheduler_name: str) -> None:
        super().__init__(document, scheduler_name)
        uid = self.metadata.get("uid")
        # A Job that was never applied has no uid. Its PodGroup has the name of the Job, as in older
        # versions of Volcano.
        self.group = f"{self.name}-{uid}" if uid else self.name
        self.job = f"{self.namespace}/{self.group}"
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

    def objects(self) -> Iterator[Document]:
        yield self.made(self._pod_group(), "", self.group)
        for index, task in enumerate(self.tasks):
            for pod in self._pods(task):
                yield self.made(pod, f"spec.tasks[{index}].template", self.group)

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
    for field, fallback in (("schedulerName", owner.scheduler_name), ("priorityClassName", "")):
        spec[field] = spec.get(field) or owner.spec.get(field) or fallback
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "labels": {**owner.mapping(metadata, "labels", "template.metadata.labels"), **labels},
            "annotations": {
                **owner.mapping(metadata, "annotations", "template.metadata.annotations"),
                **annotations,
            },
        },
        "spec": spec,
    }


def _workload(document: Document, field: str, scheduler_name: str) -> Iterator[Document | Note]:
    """Generates the pods of a workload and their PodGroup, as the PodGroup controller does."""
    owner = _Reader(document, scheduler_name)
    template = owner.mapping(owner.spec, "template", "spec.template")
    count = owner.count(owner.spec, field, 1, f"spec.{field}")
    group = f"podgroup-{owner.metadata.get('uid') or owner.name}"
    metadata = owner.mapping(template, "metadata", "spec.template.metadata")
    annotations = owner.mapping(metadata, "annotations", "spec.template.metadata.annotations")
    if annotations.get(GROUP_NAME):
        group = str(annotations[GROUP_NAME])
    yield from owner.scheduler_note(
        owner.mapping(template, "spec", "spec.template.spec"), "spec.template.spec"
    )
    if not annotations.get(GROUP_NAME):
        held = owner.mapping(owner.metadata, "annotations")
        minimum = min_member(str(held.get("scheduling.volcano.sh/group-min-member", "1")))
        yield owner.made(_group(owner, group, minimum, annotations), "", group)
    for index in range(count):
        pod = _pod(owner, f"{owner.name}-{index}", template, {}, {GROUP_NAME: group})
        yield owner.made(pod, "spec.template", group)


def _bare_pod(document: Document, scheduler_name: str) -> Iterator[Document | Note]:
    pod = _Reader(document, scheduler_name)
    annotations = pod.mapping(pod.metadata, "annotations")
    yield from pod.scheduler_note(pod.spec, "spec")
    if pod.spec.get("nodeName"):
        yield document
        return
    spec = {**pod.spec, "schedulerName": pod.spec.get("schedulerName") or scheduler_name}
    if annotations.get(GROUP_NAME):
        yield Document({**pod.body, "spec": spec}, document.source)
        return
    group = f"podgroup-{pod.metadata.get('uid') or pod.name}"
    metadata = {**pod.metadata, "annotations": {**annotations, GROUP_NAME: group}}
    yield pod.made(_group(pod, group, 1, annotations), "", group)
    yield pod.made({**pod.body, "metadata": metadata, "spec": spec}, "", group)


def _group(owner: _Reader, name: str, least: int, annotations: Mapping[str, Any]) -> dict[str, Any]:
    queue = str(annotations.get("scheduling.volcano.sh/queue-name") or "default")
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": owner.namespace},
        "spec": {"minMember": least, "queue": queue},
    }
