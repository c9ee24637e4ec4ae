"""The ray plugin: commands of head and workers, and a Service for the head."""

from typing import Final

from pumice.controllers.job.plugins.arguments import parse
from pumice.controllers.job.plugins.context import (
    JobObject,
    PodContext,
    containers,
    host_of,
    object_body,
    open_port,
)
from pumice.controllers.job.types import JOB_NAME, JOB_NAMESPACE, TASK_SPEC, Job, JobSpec
from pumice.controllers.resources import SERVICES
from pumice.controllers.runtime.objects import Manifest

_PORTS: Final = (("gcs", "port"), ("dashboard", "dashboardPort"), ("client-server", "clientPort"))


class RayPlugin:
    """Makes a Ray cluster of a job."""

    def __init__(self, arguments: list[str]) -> None:
        defaults: dict[str, str | int | bool] = {
            "head": "head",
            "headContainer": "head",
            "worker": "worker",
            "workerContainer": "worker",
            "port": 6379,
            "dashboardPort": 8265,
            "clientPort": 10001,
        }
        given = parse(arguments, defaults)
        self.problem, self._values = given.problem, given.values

    def objects(self, job: Job, spec: JobSpec) -> list[JobObject]:
        metadata = job.metadata
        pods = {
            JOB_NAME: metadata.name,
            JOB_NAMESPACE: metadata.namespace,
            TASK_SPEC: str(self._values["head"]),
        }
        ports = [
            {"name": name, "port": self._values[key], "targetPort": name, "protocol": "TCP"}
            for name, key in _PORTS
        ]
        spec_ = {"selector": pods, "ports": ports}
        body = object_body(job, "v1", "Service", f"{metadata.name}-head-svc", spec=spec_)
        return [JobObject(SERVICES, body)]

    def change_pod(self, context: PodContext, body: Manifest) -> None:
        values = self._values
        head = context.task_of(str(values["head"]))
        if head is None:
            raise ValueError(f"plugin ray: the job has no task {values['head']!r}")
        for container in containers(body, init=False):
            place = (context.task.name, container.get("name"))
            if place == (values["head"], values["headContainer"]):
                for name, key in _PORTS:
                    open_port(container, name, int(values[key]))
                command = (
                    "ray start --head --block --dashboard-host=0.0.0.0"
                    f" --port={values['port']} --dashboard-port={values['dashboardPort']}"
                    f" --ray-client-server-port={values['clientPort']}"
                )
                container["command"] = ["sh", "-c", command]
            elif place == (values["worker"], values["workerContainer"]):
                address = f"{host_of(context.job, head, 0)}:{values['port']}"
                container["command"] = ["sh", "-c", f"ray start --block --address={address}"]
