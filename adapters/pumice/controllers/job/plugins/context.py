"""What plugins of Jobs get and give."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from pumice.adapters.kubernetes.resources import Resource
from pumice.controllers.job.types import API_VERSION, JOB_NAME, KIND, Job, JobSpec, Task
from pumice.controllers.runtime.objects import Manifest, owner_reference


@dataclass(frozen=True, slots=True)
class PodContext:
    """Which pod of which job is about to be created."""

    job: Job
    spec: JobSpec
    task: Task
    index: int

    def task_of(self, name: str) -> Task | None:
        return next((task for task in self.spec.tasks or () if task.name == name), None)


@dataclass(frozen=True, slots=True)
class JobObject:
    """An object that a plugin makes for a job, and that is deleted with the plugin's work."""

    resource: Resource
    body: Manifest
    # Whether it follows the job when the job is scaled.
    follows: bool = False
    # Makes the whole body, with what is random or slow to compute.
    complete: Callable[[], Manifest] | None = None

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])


class JobPlugin(Protocol):
    """A plugin, made from its arguments."""

    @property
    def problem(self) -> str:
        """What is wrong with the arguments; the rest of them has no effect."""
        ...

    def objects(self, job: Job, spec: JobSpec) -> list[JobObject]:
        """What the job needs before it has pods. Only names matter for a deletion."""
        ...

    def change_pod(self, context: PodContext, body: Manifest) -> None:
        """Changes a pod that is about to be created. Raises ValueError."""
        ...


def object_body(job: Job, api_version: str, kind: str, name: str, **content: Any) -> Manifest:
    """An object of a job. The label lets the controller watch only such objects."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": job.metadata.namespace,
            "labels": {JOB_NAME: job.metadata.name},
            "ownerReferences": [owner_reference(API_VERSION, KIND, job.metadata)],
        },
        **content,
    }


def containers(body: Manifest, *, init: bool) -> Iterator[Manifest]:
    """The main containers of a pod, and with `init` also its init containers."""
    yield from body["spec"].get("containers") or ()
    if init:
        yield from body["spec"].get("initContainers") or ()


def host_of(job: Job, task: Task, index: int) -> str:
    """The host name of a pod with its subdomain."""
    return f"{host_name(job, task, index)}.{task.spec.get('subdomain') or job.metadata.name}"


def host_name(job: Job, task: Task, index: int) -> str:
    return task.spec.get("hostname") or f"{job.metadata.name}-{task.name}-{index}"


def host_indexes(task: Task) -> range:
    """The pods that have hosts of their own: one, when the template has a host name."""
    count = min(task.replicas, 1) if task.spec.get("hostname") else task.replicas
    return range(count)


def open_port(container: Manifest, name: str, number: int) -> None:
    """Adds a port, unless the container has that number already."""
    if all(port.get("containerPort") != number for port in container["ports"]):
        container["ports"].append({"name": name, "containerPort": number})
