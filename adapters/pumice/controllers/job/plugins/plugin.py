"""The base class of plugins of Jobs, and what plugins share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from pumice.adapters.kubernetes.resources import Resource
from pumice.controllers.job.types import JOB_NAME, JOB_NAMESPACE, Job, JobSpec, Task
from pumice.controllers.resources import JOBS
from pumice.controllers.runtime.objects import Manifest, new_object, owner_reference
from pumice.patterns.golang import parse_bool, parse_int

# The value of an argument; the type of its default decides.
Value: TypeAlias = str | int | bool


@dataclass(frozen=True, slots=True)
class PodContext:
    """The task and the index of a pod that is about to be created."""

    job: Job
    spec: JobSpec
    task: Task
    index: int

    def task_of(self, name: str) -> Task | None:
        return next((task for task in self.spec.tasks or () if task.name == name), None)


@dataclass(frozen=True, slots=True)
class JobObject:
    """An object that a plugin creates for a job. It is deleted when the job has finished."""

    resource: Resource
    body: Manifest
    # Whether the data of a ConfigMap is updated when the job changes.
    follows_job: bool = False
    # Makes the whole body, if parts of it are random or slow to compute.
    complete: Callable[[], Manifest] | None = None

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])


class JobPlugin(ABC):
    """A plugin with its arguments."""

    # The flags that the plugin accepts, with their defaults.
    defaults: ClassVar[Mapping[str, Value]] = {}

    def __init__(self, arguments: Sequence[str]) -> None:
        # The problem is what is wrong with the arguments; those that follow it have no effect.
        self._values, self.problem = _parse(arguments, self.defaults)

    def _text(self, flag: str) -> str:
        return str(self._values[flag])

    def _number(self, flag: str) -> int:
        return int(self._values[flag])

    def objects(self, job: Job, spec: JobSpec) -> list[JobObject]:
        """The objects that the job needs before its pods. A deletion uses only their names."""
        return []

    @abstractmethod
    def change_pod(self, context: PodContext, body: Manifest) -> None:
        """Changes a pod that is about to be created. Raises ValueError."""


def _parse(
    arguments: Sequence[str], defaults: Mapping[str, Value]
) -> tuple[Mapping[str, Value], str]:
    """The values of all flags, and what is wrong with the arguments; "": nothing.

    The syntax is that of Go's flags. Parsing stops at the first word that is not a flag, or that is invalid.
    """
    values = dict(defaults)
    words = list(arguments)
    while words and words[0].startswith("-") and words[0].strip("-"):
        word = words.pop(0)
        name, equals, text = word.lstrip("-").partition("=")
        if name not in defaults:
            allowed = ", ".join(f"--{known}" for known in defaults) or "none"
            return values, f"unknown argument {word!r}; allowed: {allowed}"
        if not equals:
            if isinstance(defaults[name], bool):
                text = "true"
            elif words:
                text = words.pop(0)
            else:
                return values, f"--{name} needs a value"
        value = _read(text, defaults[name])
        if value is None:
            kind = "true or false" if isinstance(defaults[name], bool) else "a number"
            return values, f"--{name}={text} is not {kind}"
        values[name] = value
    return values, ""


def _read(text: str, default: Value) -> Value | None:
    if isinstance(default, bool):
        return parse_bool(text)
    return parse_int(text) if isinstance(default, int) else text


# What several plugins need.


def object_body(job: Job, resource: Resource, name: str, **content: Any) -> Manifest:
    """An object of a job. The controller watches objects with the label."""
    metadata = {
        "name": name,
        "namespace": job.metadata.namespace,
        "labels": {JOB_NAME: job.metadata.name},
        "ownerReferences": [owner_reference(JOBS, job.metadata)],
    }
    return new_object(resource, metadata, **content)


def pod_selector(job: Job) -> dict[str, str]:
    """The labels of all pods of a job."""
    return {JOB_NAME: job.metadata.name, JOB_NAMESPACE: job.metadata.namespace}


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


def hosts(job: Job, task: Task) -> list[str]:
    """The hosts of a task, with their subdomains."""
    return [host_of(job, task, index) for index in host_indexes(task)]


def host_indexes(task: Task) -> range:
    """The pods with distinct hosts: one pod, if the template has a host name."""
    count = min(task.replicas, 1) if task.spec.get("hostname") else task.replicas
    return range(count)


def open_port(container: Manifest, name: str, number: int) -> None:
    """Adds a port, unless the container has the number already."""
    if all(port.get("containerPort") != number for port in container["ports"]):
        container["ports"].append({"name": name, "containerPort": number})
