"""The bare writes of Jobs: the writes that any controller needs until the Jobs run.

The bodies equal those of pumice's controllers, except for names and times. They are encoded before
the measurement, with a fixed uid that is replaced by the uid of the created Job.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pumice.adapters.kubernetes.session import MERGE, ApiSession
from pumice.bench import api_server
from pumice.bench.api_server import GROUPS, NAMESPACE, PODS
from pumice.bench.clusters import Size
from pumice.controllers.job.defaults import with_defaults
from pumice.controllers.job.groups import group_body, min_resources
from pumice.controllers.job.pods import group_name, pod_body
from pumice.controllers.job.types import Job, JobSpec
from pumice.controllers.runtime.objects import Metadata

JOBS: Final = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/jobs"
SCHEDULER: Final = "volcano"
_UID: Final = "00000000-0000-0000-0000-000000000000"
_TIME: Final = "2026-01-01T00:00:00Z"
_ENCODE: Final = msgspec.json.Encoder().encode
_SECONDS: Final = 60.0


def job_bodies(size: Size, prefix: str) -> Iterator[dict[str, Any]]:
    requests = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "main", "image": "work", "resources": {"requests": requests}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    for job in range(size.jobs):
        yield {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": f"{prefix}-{job:04}"},
            "spec": {
                "schedulerName": SCHEDULER,
                "minAvailable": size.size,
                "tasks": [{"name": "w", "replicas": size.size, "template": template}],
            },
        }


class _Created(msgspec.Struct):
    metadata: Metadata


@dataclass(slots=True)
class BareJob:
    """The encoded bodies of one Job, its PodGroup and its pods."""

    name: str
    body: bytes
    group: bytes
    pods: list[tuple[str, bytes]]
    uid: bytes = b""

    @property
    def group_name(self) -> str:
        return f"{self.name}-{self.uid.decode()}"

    def filled(self, body: bytes) -> bytes:
        return body.replace(_UID.encode(), self.uid)


def bare_jobs(size: Size, prefix: str) -> list[BareJob]:
    return [_bare_job(body, size.size) for body in job_bodies(size, prefix)]


def _bare_job(body: dict[str, Any], count: int) -> BareJob:
    name = body["metadata"]["name"]
    metadata = Metadata(name, NAMESPACE, _UID)
    job = Job(metadata, msgspec.convert(body["spec"], JobSpec))
    spec = with_defaults(job.spec, SCHEDULER)
    task = (spec.tasks or [])[0]
    pods = [pod_body(job, spec, task, index, is_forwarded=False) for index in range(count)]
    assert group_name(job) == f"{name}-{_UID}"
    return BareJob(
        name,
        _ENCODE(body),
        _ENCODE(group_body(job, spec, min_resources(spec, {}))),
        [(pod["metadata"]["name"], _ENCODE(pod)) for pod in pods],
    )


# Calls.


async def create_jobs(api: ApiSession, jobs: Iterable[BareJob]) -> None:
    await api_server.all_of(_create_job(api, job) for job in jobs)


async def _create_job(api: ApiSession, job: BareJob) -> None:
    answer = await api.call("POST", JOBS, job.body, seconds=_SECONDS)
    job.uid = msgspec.json.decode(answer, type=_Created).metadata.uid.encode()


def group_calls(api: ApiSession, jobs: Iterable[BareJob]) -> Iterator[Awaitable[object]]:
    for job in jobs:
        yield api.call("POST", GROUPS, job.filled(job.group), seconds=_SECONDS)


def pod_calls(api: ApiSession, jobs: Iterable[BareJob]) -> Iterator[Awaitable[object]]:
    for job in jobs:
        for _, body in job.pods:
            yield api.call("POST", PODS, job.filled(body), seconds=_SECONDS)


def bindings(api: ApiSession, jobs: Iterable[BareJob], nodes: int) -> Iterator[Awaitable[object]]:
    names = (name for job in jobs for name, _ in job.pods)
    for number, name in enumerate(names):
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": f"node-{number % nodes:05}"},
        }
        yield api.call("POST", f"{PODS}/{name}/binding", _ENCODE(body), seconds=_SECONDS)


def group_phases(
    api: ApiSession, jobs: Iterable[BareJob], status: dict[str, Any]
) -> Iterator[Awaitable[object]]:
    body = _ENCODE({"status": status})
    for job in jobs:
        path = f"{GROUPS}/{job.group_name}"
        yield api.call("PATCH", path, body, content_type=MERGE, seconds=_SECONDS)


def job_phases(
    api: ApiSession, jobs: Iterable[BareJob], running: int
) -> Iterator[Awaitable[object]]:
    phases = [{"status": phase, "lastTransitionTime": _TIME} for phase in ("Pending", "Running")]
    status = {
        "state": {"phase": "Running", "lastTransitionTime": _TIME},
        "minAvailable": running,
        "running": running,
        "taskStatusCount": {"w": {"phase": {"Running": running}}},
        "conditions": phases,
    }
    body = _ENCODE({"status": status})
    for job in jobs:
        path = f"{JOBS}/{job.name}/status"
        yield api.call("PATCH", path, body, content_type=MERGE, seconds=_SECONDS)


RUNNING_GROUP: Final[dict[str, Any]] = {
    "phase": "Running",
    "conditions": [
        {
            "type": "Scheduled",
            "status": "True",
            "transitionID": _UID,
            "lastTransitionTime": _TIME,
            "reason": "tasks in gang are ready to be scheduled",
        }
    ],
}
