"""The manifest of ``pumice schedule``: its objects, and which of them would stay pending."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pumice.cli.errors import InputProblem
from pumice.cli.simulation.sources import named_source
from pumice.cli.terminal import warn
from pumice.client import ScheduleResult
from pumice.manifests import translate_all
from pumice.manifests.documents import parse
from pumice.manifests.errors import ManifestError
from pumice.v1.object_pb2 import ClusterObject
from pumice.v1.pod_pb2 import POD_PHASE_PENDING, POD_PHASE_UNSPECIFIED, Pod

_SCHEDULER_NAME = "volcano"
# Kinds whose pods use Kubernetes' own scheduler unless they name another.
_KUBERNETES_KINDS = {
    ("v1", "Pod"),
    ("batch/v1", "Job"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
}
_PENDING = (POD_PHASE_UNSPECIFIED, POD_PHASE_PENDING)


@dataclass(frozen=True, slots=True)
class Pending:
    """A job that would stay pending, or pods of it, and why."""

    job: str
    why: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The objects of some files, with the pods of workloads."""

    objects: list[ClusterObject]
    # PodGroups as ``namespace/name``.
    groups: frozenset[str]

    @property
    def has_nodes(self) -> bool:
        return any(held.HasField("node") for held in self.objects)

    def pending(self, result: ScheduleResult) -> list[Pending]:
        """Jobs and pods of the manifest that would stay pending, also those no session examines."""
        listed = [Pending(wait.job, wait.why) for wait in result.waits if wait.job in self.groups]
        bound = {bind.pod for bind in result.binds}
        waiting = {wait.job for wait in result.waits}
        others: dict[tuple[str, str], list[str]] = {}
        for held in self.objects:
            pod = held.pod
            if not held.HasField("pod") or pod.node_name or pod.phase not in _PENDING:
                continue
            job = f"{pod.namespace}/{pod.group_name}"
            if f"{pod.namespace}/{pod.name}" in bound or (pod.group_name and job in waiting):
                continue
            others.setdefault((job, self._why_not_examined(pod, job)), []).append(pod.name)
        return listed + [
            Pending(job, f"{_first_of(pods)}: {why}") for (job, why), pods in others.items()
        ]

    def _why_not_examined(self, pod: Pod, job: str) -> str:
        name, gates = pod.spec.scheduler_name, pod.spec.scheduling_gates
        if name != _SCHEDULER_NAME:
            return f"belongs to the scheduler {name or 'of Kubernetes'} (spec.schedulerName)"
        if gates:
            return f"has a scheduling gate ({', '.join(gates)})"
        if not pod.group_name:
            return "is in no PodGroup"
        if job not in self.groups:
            return f"its PodGroup {job} is neither in the manifest nor in the cluster"
        return "not examined; more sessions (--sessions) may examine it"


def _first_of(pods: list[str]) -> str:
    return f"{pods[0]} and {len(pods) - 1} more" if len(pods) > 1 else pods[0]


def read(files: Iterable[str]) -> Manifest:
    sources = [named_source(file) for file in files]
    translation = translate_all(*sources, expand_workloads=True)
    for ignored in translation.ignored:
        warn(str(ignored))
    if translation.errors:
        first, *more = translation.errors
        rest = f" (and {len(more)} more)" if more else ""
        raise InputProblem(f"{first}{rest}")
    if not translation.objects:
        raise InputProblem(f"{', '.join(files)}: no objects that a scheduler reads")
    for source in sources:
        for name in _for_another_scheduler(source.getvalue(), source.name):
            warn(
                f"{name}: without a schedulerName, Kubernetes' own scheduler gets its pods; "
                f"this result is for schedulerName {_SCHEDULER_NAME!r}"
            )
    groups = (held.pod_group for held in translation.objects if held.HasField("pod_group"))
    return Manifest(translation.objects, frozenset(f"{g.namespace}/{g.name}" for g in groups))


def _for_another_scheduler(text: bytes, source: str) -> Iterator[str]:
    for found in parse(text, source):
        if isinstance(found, ManifestError):
            continue
        body = found.body
        if (body.get("apiVersion"), body.get("kind")) not in _KUBERNETES_KINDS:
            continue
        spec = _mapping(body, "spec")
        pod = spec if body["kind"] == "Pod" else _mapping(_mapping(spec, "template"), "spec")
        if not pod.get("schedulerName") and not pod.get("nodeName"):
            yield f"{found.source}: {body['kind']} {_mapping(body, 'metadata').get('name')}"


def _mapping(holder: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = holder.get(field)
    return value if isinstance(value, Mapping) else {}
