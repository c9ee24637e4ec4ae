"""The manifest that somebody wants to try: what is in it, and what became of that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pumice.cli.errors import InputProblem
from pumice.cli.simulation.sources import named_source
from pumice.cli.terminal import warn
from pumice.client.models import ScheduleResult, Waiting
from pumice.manifests import translate_all
from pumice.manifests.documents import parse
from pumice.manifests.errors import ManifestError
from pumice.v1.object_pb2 import ClusterObject
from pumice.v1.pod_pb2 import POD_PHASE_PENDING, POD_PHASE_UNSPECIFIED, Pod

_OURS = "volcano"
# Kinds whose pods go to Kubernetes' own scheduler unless they say otherwise.
_PLAIN = {
    ("v1", "Pod"),
    ("batch/v1", "Job"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
}
_WAITING = (POD_PHASE_UNSPECIFIED, POD_PHASE_PENDING)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The objects of some files, workloads written out."""

    objects: list[ClusterObject]
    # PodGroups as ``namespace/name``.
    groups: frozenset[str]

    @property
    def has_nodes(self) -> bool:
        return any(held.HasField("node") for held in self.objects)

    def is_ours(self, job: str) -> bool:
        return job in self.groups

    def waiting(self, result: ScheduleResult) -> list[Waiting]:
        """What of it would wait; pods that sessions do not even look at are among that."""
        listed = [wait for wait in result.waiting if wait.job in self.groups]
        bound = {bind.pod for bind in result.binds}
        known = {wait.job for wait in result.waiting}
        left: dict[tuple[str, str], list[str]] = {}
        for held in self.objects:
            pod = held.pod
            if not held.HasField("pod") or pod.node_name or pod.phase not in _WAITING:
                continue
            job = f"{pod.namespace}/{pod.group_name}"
            if f"{pod.namespace}/{pod.name}" in bound or (pod.group_name and job in known):
                continue
            left.setdefault((job, self._why(pod, job)), []).append(pod.name)
        return listed + [_left(job, why, pods) for (job, why), pods in left.items()]

    def _why(self, pod: Pod, job: str) -> str:
        name, gates = pod.spec.scheduler_name, pod.spec.scheduling_gates
        if name != _OURS:
            return f"for the scheduler {name or 'of Kubernetes'} (spec.schedulerName), not for this"
        if gates:
            return f"held by a scheduling gate ({', '.join(gates)})"
        if not pod.group_name:
            return "in no PodGroup"
        if job not in self.groups:
            return f"in the PodGroup {job}, which is not in the manifest and not in the cluster"
        return "not looked at; more sessions (--sessions) may come to it"


def _left(job: str, why: str, pods: list[str]) -> Waiting:
    more = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
    return Waiting(job, (f"{pods[0]}{more}: {why}",))


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
        raise InputProblem(f"{', '.join(files)}: nothing in it that is scheduled")
    for source in sources:
        for name in _for_another_scheduler(source.getvalue(), source.name):
            warn(
                f"{name}: names no schedulerName, so Kubernetes' own scheduler would get its pods; "
                f"tried as if it said '{_OURS}'"
            )
    groups = (held.pod_group for held in translation.objects if held.HasField("pod_group"))
    return Manifest(translation.objects, frozenset(f"{g.namespace}/{g.name}" for g in groups))


def _for_another_scheduler(text: bytes, source: str) -> Iterator[str]:
    for found in parse(text, source):
        if isinstance(found, ManifestError):
            continue
        body = found.body
        if (body.get("apiVersion"), body.get("kind")) not in _PLAIN:
            continue
        spec = _mapping(body, "spec")
        pod = spec if body["kind"] == "Pod" else _mapping(_mapping(spec, "template"), "spec")
        if not pod.get("schedulerName") and not pod.get("nodeName"):
            yield f"{found.source}: {body['kind']} {_mapping(body, 'metadata').get('name')}"


def _mapping(holder: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = holder.get(field)
    return value if isinstance(value, Mapping) else {}
