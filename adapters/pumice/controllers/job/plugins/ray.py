"""The plugin ray, which sets the commands of head and workers, and creates a Service for the head."""

from collections.abc import Mapping
from typing import ClassVar, Final

from pumice.controllers.job.plugins.plugin import (
    JobObject,
    JobPlugin,
    PodContext,
    Value,
    containers,
    host_of,
    object_body,
    open_port,
    pod_selector,
)
from pumice.controllers.job.types import TASK_SPEC, Job, JobSpec
from pumice.controllers.resources import SERVICES
from pumice.controllers.runtime.objects import Manifest

_PORTS: Final = (("gcs", "port"), ("dashboard", "dashboardPort"), ("client-server", "clientPort"))


class RayPlugin(JobPlugin):
    """Makes the pods of a job a Ray cluster."""

    defaults: ClassVar[Mapping[str, Value]] = {
        "head": "head",
        "headContainer": "head",
        "worker": "worker",
        "workerContainer": "worker",
        "port": 6379,
        "dashboardPort": 8265,
        "clientPort": 10001,
    }

    def objects(self, job: Job, spec: JobSpec) -> list[JobObject]:
        ports = [
            {"name": name, "port": self._values[key], "targetPort": name, "protocol": "TCP"}
            for name, key in _PORTS
        ]
        selector = {**pod_selector(job), TASK_SPEC: self._text("head")}
        service = object_body(
            job,
            SERVICES,
            f"{job.metadata.name}-head-svc",
            spec={"selector": selector, "ports": ports},
        )
        return [JobObject(SERVICES, service)]

    def change_pod(self, context: PodContext, body: Manifest) -> None:
        values = self._values
        head = context.task_of(str(values["head"]))
        if head is None:
            raise ValueError(f"plugin ray: the job has no task {values['head']!r}")
        for container in containers(body, init=False):
            role = (context.task.name, container.get("name"))
            if role == (values["head"], values["headContainer"]):
                for name, key in _PORTS:
                    open_port(container, name, int(values[key]))
                command = (
                    "ray start --head --block --dashboard-host=0.0.0.0"
                    f" --port={values['port']} --dashboard-port={values['dashboardPort']}"
                    f" --ray-client-server-port={values['clientPort']}"
                )
                container["command"] = ["sh", "-c", command]
            elif role == (values["worker"], values["workerContainer"]):
                address = f"{host_of(context.job, head, 0)}:{values['port']}"
                container["command"] = ["sh", "-c", f"ray start --block --address={address}"]
